"""The views: answers of all standing queries, folded from the commit records and trimmed by window and retention."""
