"""Sites: they hold private data and answer the fusion center's asks.

A message goes through `clients.app`, `clients.dispatch` and one handler. A protocol provides three modules, as
``clients/NAME/`` or in a package of its own (`protocols.registry`). Shared code imports each of them only when needed,
because in deployment every message is a process of its own.

==========  =================================================  =====================================================
module      what it provides                                   who calls it, and when
==========  =================================================  =====================================================
handlers    functions ``(ask, site) -> answer``, decorated     `clients.dispatch`, for a message with an ask of the
            with `clients.dispatch.answers`                    protocol
shard       ``open_shard(config) -> shard``: the site's own    `clients.shards`, when a handler first uses
            data as the protocol uses them; raises             ``site.shard``
            `clients.data.DataError`
check       ``check_lines(config) -> list of str``: the data   ``consilience check``
            that a run would use, and those that would leave
            the site; raises as ``open_shard``
==========  =================================================  =====================================================

`config` is the run configuration overridden by the site's own. A shard is a frozen dataclass of arrays, text, numbers
and mappings of these, so that it can be kept on the site's disk (`clients.data.cache`). Its attribute ``n``, if any, is
the number of rows for the site's policy.
"""
