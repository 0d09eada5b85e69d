"""Runs the code of the five seed pages as it stands: `make seeds`.

`pages` reads the fenced blocks, `errata` supplies names that a page uses and never defines, `page_process` runs one
page in one Python process, `mirror` answers the pages' web addresses from local files, `verdicts` compares what
happened with `not_yet.toml`.
"""
