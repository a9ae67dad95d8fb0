"""`python -m apps.hazmat.induce_tree`: learn the decision tree of `matching` again, from library spectra only.

Needs scikit-learn 1.9.1 in an environment of its own; the application reads only the result, library/tree.json.
"""

from __future__ import annotations

import json

import numpy as np
from sklearn.tree import DecisionTreeClassifier  # type: ignore[import-not-found]

from apps.hazmat.matching import TREE_FILE, library_background, library_examples, windows

DEPTH = 10


def main() -> None:
    examples = library_examples()
    features = windows(examples.bins, examples.live_s, library_background())
    tree = (
        DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=5, random_state=1).fit(features, examples.label).tree_
    )
    # Thresholds keep all digits: the features are compared with exactly what was learnt.
    stored = {
        "depth": [int(tree.max_depth)],
        "feature": tree.feature.tolist(),
        "threshold": tree.threshold.tolist(),
        "left": tree.children_left.tolist(),
        "right": tree.children_right.tolist(),
        "label": np.argmax(tree.value[:, 0, :], axis=1).tolist(),
    }
    TREE_FILE.write_text(json.dumps(stored) + "\n")


if __name__ == "__main__":
    main()
