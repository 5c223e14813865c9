"""Attacks of a lying fusion center on a site's own file, played on the site's own machine: ``consilience attack``.

`consilience.attack.interface` says what a protocol's module in this room has.
"""
