"""The grammar of our own statements, one file per family. Tokens come in, `statements` go out.

Each function stands behind the words that chose it and reads on with `PenstockParser`'s helpers.
"""
