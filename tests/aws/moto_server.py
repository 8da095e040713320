"""Starts moto, whose version `src/venv.rs` pins, with tags that are looked up by resource.

moto compares each tag of the account with a pattern for each resource that it describes: a list of 1,000 instances with ten tags took 19 s
in place of 3 s, and no other call was answered meanwhile.
"""

import sys

from moto.ec2.models.tags import TagBackend
from moto.server import main

of_all = TagBackend.describe_tags


def describe_tags(self, filters=None):
    others = dict(filters or {})
    ids = others.pop("resource-id", [])
    if not ids or any(wildcard in one for one in ids for wildcard in "*?"):
        return of_all(self, filters)
    named = TagBackend()
    named.tags.update({one: self.tags[one] for one in ids if one in self.tags})
    return of_all(named, others or None)


TagBackend.describe_tags = describe_tags

if __name__ == "__main__":
    sys.exit(main())
