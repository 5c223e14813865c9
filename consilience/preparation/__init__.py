"""Preparation of data for a protocol whose data are results of models: a module a protocol.

Such a module has

``Options``
    A class of `common.settings.Settings`: the protocol's keys for ``--set``.
``prepare(tables, options, folder) -> list of str``
    Write a file for every site into a folder, and return lines for the user. `tables` has a `clients.data.Table` for
    every site.
"""
