"""Writes the list of versions of a site, and its start page, which opens the newest release: versions.py DIRECTORY"""
import json, pathlib, sys

site = pathlib.Path(sys.argv[1])
def order(name):  # by number; a version under development before the releases, a pre-release before its release
    base, _, pre = name.removeprefix("v").partition("-")
    numbers = [int(n) if n.isdigit() else -1 for n in base.split(".")]
    return numbers, not pre, [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pre.split(".")]

names = sorted((page.parent.name for page in site.glob("*/index.html")), key=order)
newest = next((name for name in reversed(names) if "-" not in name), names[-1])  # no pre-release
(site / "versions.json").write_text(json.dumps([{"version": n, "title": n, "aliases": []} for n in reversed(names)], indent=1) + "\n")
(site / "index.html").write_text(f'<!doctype html><meta charset="utf-8"><title>tare</title><meta http-equiv="refresh" content="0; url={newest}/">\n')
