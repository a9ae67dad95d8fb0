"""The command line: words in, data to stdout, progress to stderr, non-zero on failure.

`main.app` is `penstock`; commands on one subject are in one module, and `command` has what all of them share. Everything
but `serve` and `restore` talks to a running server through `penstock.client`, so the same commands work from another machine.
"""
