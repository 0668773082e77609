"""How each case is run: without the library, and with it under these settings."""

PLAIN = "plain"
LIMIT = "limit"
PRELOADED = {
    "round": {"GPUPOOL_TYPE": "round", "GPUPOOL_ASYNC": "pool"},
    "naive": {"GPUPOOL_TYPE": "naive"},
    "segment": {"GPUPOOL_TYPE": "segment"},
    "vmm": {"GPUPOOL_TYPE": "vmm"},
    "unpooled": {"GPUPOOL_TYPE": "unpooled"},
    "async": {"GPUPOOL_ASYNC": "plain"},
    LIMIT: {},
}
# Every event is kept, so that allocations can be counted.
COMMON = {"GPUPOOL_OUTPUT": "%p.%r.json", "GPUPOOL_TRACE_EVENTS": "1048576"}


def environment(variant, limit, library, planted):
    """What a variant adds to the environment of a case."""
    if variant == PLAIN:
        return {}
    settings = dict(COMMON, LD_PRELOAD=library, **PRELOADED[variant])
    if variant == LIMIT:
        settings["GPUPOOL_LIMIT"] = limit
    return dict(settings, **planted)
