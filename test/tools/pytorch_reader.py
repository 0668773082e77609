"""The figures of a snapshot of PyTorch's, by PyTorch's own rules and nothing of the tool: what summary says has to be that.

It walks back from the segments of the end to what was there before the first event, and then forward again.
"""

from collections import Counter, defaultdict

MIB = 1 << 20
BACK = ("segment_unmap", "segment_free")
SUPPLY = ("segment_map", "segment_alloc")
EXPANDABLE = ("segment_map", "segment_unmap")
STATES = {"active_allocated": "live", "active_pending_free": "pending_free", "inactive": "idle"}
NO_STACK = "(no stack recorded)"


class Block:
    def __init__(self, asked, frames, takes=0, pending=False):
        self.asked, self.frames, self.takes, self.pending = asked, frames, takes, pending


class Device:
    """At one moment: blocks by address, and ranges that the driver gave: [first, end, stream, is_expandable]."""

    def __init__(self, segments):
        self.blocks, self.ranges = {}, []
        for one in segments:
            self.ranges.append([one["address"], one["address"] + one["total_size"], one["stream"], one["is_expandable"]])
            for block in one["blocks"]:
                if block["state"] != "inactive":
                    self.blocks[block["address"]] = Block(
                        block["requested_size"], block["frames"], block["size"], block["state"] == "active_pending_free")

    def add(self, event):
        """What the driver gave. Of expandable segments what touches is one."""
        first, end, expandable = event["addr"], event["addr"] + event["size"], event["action"] in EXPANDABLE
        for one in [one for one in self.ranges if expandable and one[3] and one[2] == event["stream"]]:
            if one[1] == first or one[0] == end:
                first, end = min(first, one[0]), max(end, one[1])
                self.ranges.remove(one)
        self.ranges.append([first, end, event["stream"], expandable])

    def remove(self, event):
        first, end = event["addr"], event["addr"] + event["size"]
        (one,) = [one for one in self.ranges if one[0] <= first and end <= one[1]]
        self.ranges.remove(one)
        self.ranges += [[a, b, *one[2:]] for a, b in ((one[0], first), (end, one[1])) if a < b]

    def undo(self, event):
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            del self.blocks[address]
        elif action == "free_completed":
            self.blocks[address] = Block(event["size"], [], pending=True)
        elif action == "free_requested":
            self.blocks[address].pending = False
        elif action in SUPPLY:
            self.remove(event)
        elif action in BACK:
            self.add(event)

    def redo(self, event):
        action, address = event["action"], event.get("addr")
        if action == "alloc":
            self.blocks[address] = Block(event["size"], event.get("frames", []), self.taken(address, event["size"]))
        elif action == "free_requested":
            self.blocks[address].pending = True
        elif action == "free_completed":
            del self.blocks[address]
        elif action in SUPPLY:
            self.add(event)
        elif action in BACK:
            self.remove(event)

    def taken(self, address, asked):
        """Multiples of 512 bytes. Of segments that cannot grow a large block takes a rest of up to 1 MiB, too."""
        takes = -(-asked // 512) * 512
        (one,) = [one for one in self.ranges if one[0] <= address < one[1]]
        room = min([at for at in self.blocks if address < at < one[1]] + [one[1]]) - address
        return room if not one[3] and asked > MIB >= room - takes else takes

    def holes(self, one):
        at = one[0]
        for address in sorted(at for at in self.blocks if one[0] <= at < one[1]) + [one[1]]:
            if address > at:
                yield address - at
            at = address + self.blocks[address].takes if address < one[1] else at

    def held(self):
        return [block for block in self.blocks.values() if not block.pending]

    def figures(self):
        held, pending = self.held(), [block for block in self.blocks.values() if block.pending]
        return {"requested": sum(block.asked for block in held), "allocated": sum(block.takes for block in held),
                "deferred": sum(block.takes for block in pending), "passthrough": 0, "count": len(held),
                "reserved": sum(end - first for first, end, *_ in self.ranges), "segment_count": len(self.ranges),
                "largest_hole": max((hole for one in self.ranges for hole in self.holes(one)), default=0)}

    def is_small(self, one):
        """A range has small blocks or large ones; without any its size tells."""
        sizes = [block.takes for at, block in sorted(self.blocks.items()) if one[0] <= at < one[1]]
        return sizes[0] <= MIB if sizes else one[1] - one[0] <= 2 * MIB

    def usable(self, size, stream):
        """Idle where a request of that size and stream looks: in all, and in one piece."""
        places = [one for one in self.ranges if one[2] == stream and self.is_small(one) == (size <= MIB)]
        found = [hole for one in places for hole in self.holes(one)]
        return sum(found), max(found, default=0)


def amounts(pairs):
    """[(key, bytes)]: {key: [bytes, count]}."""
    made = defaultdict(lambda: [0, 0])
    for key, size in pairs:
        made[key][0] += size
        made[key][1] += 1
    return made


def gauge(values):
    """The last one, the most, and what was added and taken away in all, beginning with nothing."""
    added = values[0] + sum(max(0, b - a) for a, b in zip(values, values[1:]))
    return {"current": values[-1], "peak": max(values), "allocated": added, "freed": added - values[-1]}


class Reader:
    """component, owner: of frames, the innermost first; owner is (function, file, line), or None. A moment is how many
    events, of all devices, have happened."""

    def __init__(self, snapshot, component, owner):
        self.segments, self.component, self.owner = snapshot["segments"], component, owner
        self.events = sorted(((event["time_us"], device, event) for device, trace in enumerate(snapshot["device_traces"])
                              for event in trace), key=lambda one: one[0])
        self.devices = sorted({one["device"] for one in self.segments} | {device for _, device, _ in self.events})
        self.start_us = self.events[0][0]
        self.state = {device: Device(self.segments_of(device)) for device in self.devices}
        for _, device, event in reversed(self.events):
            self.state[device].undo(event)
        for state in self.state.values():
            for address, block in state.blocks.items():
                block.takes = block.takes or state.taken(address, block.asked)
        # By moment: of each device the figures, what is held, and what a request would have found.
        self.moments = [{device: self.look(device) for device in self.devices}]
        for _, device, event in self.events:
            self.state[device].redo(event)
            self.moments.append({**self.moments[-1], device: self.look(device, event)})

    def segments_of(self, device):
        return [one for one in self.segments if one["device"] == device]

    def look(self, device, event=None):
        state = self.state[device]
        usable = state.usable(event["size"], event["stream"]) if event and event["action"] == "oom" else None
        return state.figures(), state.held(), usable

    def then(self, device, moment):
        return self.moments[moment][device][0]

    def blocks(self, device, moment):
        return self.moments[moment][device][1]

    def peak(self, *devices):
        """The first moment at which they held most."""
        sums = [sum(at[device][0]["requested"] for device in devices) for at in self.moments]
        return sums.index(max(sums))

    def time_ns(self, moment):
        return (self.events[moment - 1][0] - self.start_us) * 1000

    def blocks_at_end(self, device):
        """Of the file: each block with the number of blocks of its segment."""
        return [(block, len(one["blocks"])) for one in self.segments_of(device) for block in one["blocks"]]

    def gauges(self, device, actions, at):
        """at: the figures before and after each of the actions."""
        found = {name: gauge([one[figure] for one in at]) for name, figure in (
            ("requested_bytes", "requested"), ("allocated_bytes", "allocated"), ("allocation", "count"),
            ("reserved_bytes", "reserved"), ("deferred_bytes", "deferred"), ("segment", "segment_count"))}
        active = [one["allocated"] + one["deferred"] for one in at]
        # What the driver gives for a block is no cache in the meantime.
        comes = [before in SUPPLY and after in SUPPLY + ("alloc",) for before, after in zip([""] + actions, actions + [""])]
        found["active_bytes"] = gauge(active)
        found["cached_bytes"] = gauge([one["reserved"] - active[i] for i, one in enumerate(at) if not comes[i]])
        unknown = dict.fromkeys(("current", "peak", "allocated", "freed"))
        found.update(surplus_bytes=unknown, passthrough_bytes=unknown, pinned_host_bytes=unknown)
        beside_use = sum(block["size"] for block, count in self.blocks_at_end(device)
                         if block["state"] == "inactive" and count > 1)
        found["inactive_split_bytes"] = {**unknown, "current": beside_use}
        return found

    def stats(self, device):
        own = [(moment, event["action"]) for moment, (_, of, event) in enumerate(self.events, 1) if of == device]
        actions = [action for _, action in own]
        at = [self.then(device, moment) for moment in [0] + [moment for moment, _ in own]]
        found = self.gauges(device, actions, at)
        misses = sum(a in SUPPLY and b == "alloc" for a, b in zip(actions, actions[1:]))
        hits = actions.count("alloc") - misses
        idle = [block["size"] for block, _ in self.blocks_at_end(device) if block["state"] == "inactive"]
        found.update(
            cache_hits=hits, cache_misses=misses, num_ooms=actions.count("oom"),
            driver_allocs=at[0]["segment_count"] + sum(one in SUPPLY for one in actions),
            driver_frees=sum(one in BACK for one in actions),
            fences=None, host_waits=None, num_damages=None, num_alloc_retries=None,
            cache_hit_rate=hits / (hits + misses) if hits + misses else 0,
            efficiency=at[-1]["requested"] / at[-1]["reserved"] if at[-1]["reserved"] else 0,
            fragmentation=1 - max(idle) / sum(idle) if idle else 0)
        return found

    def ends(self, device):
        """What the file lists of a device."""
        states = amounts((STATES[block["state"]], block["size"]) for block, _ in self.blocks_at_end(device))
        found = {name: {"count": states[name][1], "bytes": states[name][0]} for name in STATES.values()}
        idle = [block["size"] for block, _ in self.blocks_at_end(device) if block["state"] == "inactive"]
        return {**found, "largest_idle": max(idle, default=0)}

    def sizes(self, device):
        """By size asked for at the end: bytes taken, and count."""
        return amounts((block.asked, block.takes) for block in self.state[device].held())

    def components(self, device, moment):
        found = amounts((self.component(block.frames), block.asked) for block in self.blocks(device, moment))
        return {name: {"bytes": size, "count": count} for name, (size, count) in found.items()}

    def owners(self, devices, moment):
        """Largest first: bytes, function and file, and which of its lines hold the most."""
        held = [block for device in devices for block in self.blocks(device, moment)]
        lines = amounts((self.owner(block.frames), block.asked) for block in held)
        functions = defaultdict(dict)
        for place, (size, _) in lines.items():
            if place:
                functions[place[:2]][place[2]] = size
        found = [(sum(sizes.values()), function, [line for line, size in sizes.items() if size == max(sizes.values())])
                 for function, sizes in functions.items()]
        return sorted(found, key=lambda one: -one[0])

    def ooms(self):
        found = []
        for moment, (_, device, event) in enumerate(self.events, 1):
            if event["action"] != "oom":
                continue
            later = [one["size"] for _, of, one in self.events[moment:] if of == device and one["action"] == "alloc"]
            found.append({"device": device, "event": moment - 1, "time_ns": self.time_ns(moment),
                          "requested": event["size"], "allocated_later": bool(later),
                          "got_as_much": any(size >= event["size"] for size in later)})
        return found

    def described(self, number):
        """Of the out of memory with that number, from 1."""
        oom = self.ooms()[number - 1]
        _, device, event = self.events[oom["event"]]
        at, held, (usable, hole) = self.moments[oom["event"] + 1][device]
        return {"oom": number, "live": at["allocated"], "pending_free": at["deferred"], "usable": usable, "passthrough": 0,
                "cached": at["reserved"] - at["allocated"] - at["deferred"], "largest_hole": hole, "limit": None,
                "by_limit": False, "device_free": event["device_free"], "device_total": None}, amounts(
                    (block.asked, block.asked) for block in held)

    def actions(self):
        return Counter(event["action"] for _, _, event in self.events)
