"""What a kernel written in Triton multiplies, and what it moves of each array. Its own intermediate language (TTIR) has each product of tiles, `tt.dot`, and each tile
that is loaded or stored, with their sizes, and the loops and conditions around them; bounds and conditions that hang on the launch, on numbers that the kernel is given
and on whole numbers in memory that are known are worked out for the programs of its grid, or for some of them, spread evenly. Loops that hang on anything else leave
products untold, and of how much of an array they move tiles, too; elements alone they are taken to move once. Of a condition that does, the side that multiplies, or moves, is
taken.

A tile counts as whole, whatever its mask leaves of it, and as often as it is loaded: no more than that comes from an array, and no more than the array."""
import ctypes
import functools
import math
import operator
import re
import sys

PROGRAMS = 256  # of a grid that are looked at
ROUNDS = 4096  # of a loop that hands on numbers which its products hang on
SOME = 64  # of longer loops whose products hang on the round alone
STEPS = 1 << 18  # of all programs of a launch: half a second
KEPT = 1024  # launches of a kernel whose products are remembered
TYPES = {"bf16": "bf16", "f16": "f16", "f32": "f32", "f64": "f64", "i8": "s8", "f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2", "e2m1": "f4e2m1fn", "e4m3": "f8e4m3fn",
         "e5m2": "f8e5m2"}
BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "bf16": 2, "f16": 2, "f32": 4, "f64": 8}
WHOLE = {"i1": ctypes.c_uint8, "i8": ctypes.c_int8, "i16": ctypes.c_int16, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
PRODUCTS = ("tt.dot", "tt.dot_scaled")
LOADS, STORES, BOTH = ("tt.load",), ("tt.store",), ("tt.atomic_rmw", "tt.atomic_cas")
MOVES = LOADS + STORES + BOTH
UNTOLD_PRODUCTS = "how much Triton's %s multiplies is not told (%s): it counts for the bytes of its arrays alone"
UNTOLD_MOVES = "what Triton's %s moves is not told (%s): it counts for all of its arrays"
NOT_KNOWN = (1 << 64) - 1  # how many bytes
SECTOR = 32  # bytes: no less comes from memory

_library = ctypes.PyDLL(None)
_library.pretend_products_of.argtypes = (ctypes.c_uint64, ctypes.c_char_p, ctypes.c_char_p)
_library.pretend_moves_of.argtypes = (ctypes.c_size_t, ctypes.c_void_p)
_library.pretend_known.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class Untold(Exception):
    """What it does hangs on what is not known."""


def _quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_COMPUTED = {"addi": operator.add, "subi": operator.sub, "muli": operator.mul, "divsi": _quotient, "divui": operator.floordiv, "remui": operator.mod,
             "remsi": lambda a, b: a - b * _quotient(a, b), "ceildivsi": lambda a, b: -(-a // b), "ceildivui": lambda a, b: -(-a // b),
             "floordivsi": operator.floordiv, "minsi": min, "minui": min, "maxsi": max, "maxui": max, "andi": operator.and_, "ori": operator.or_,
             "xori": operator.xor, "shli": operator.lshift, "shrsi": operator.rshift, "shrui": operator.rshift, "addf": operator.add, "subf": operator.sub,
             "mulf": operator.mul, "divf": operator.truediv, "minnumf": min, "maxnumf": max, "ceil": math.ceil, "floor": math.floor}
_COMPUTED.update(dict.fromkeys(("extsi", "extui", "trunci", "index_cast", "index_castui", "fptosi", "fptoui"), int))
_COMPUTED.update(dict.fromkeys(("sitofp", "uitofp", "extf", "truncf"), float))
_COMPUTED.update(dict.fromkeys(("bitcast", "int_to_ptr", "ptr_to_int"), lambda value: value))
_COMPARED = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
_NAME = re.compile(r"%[\w.$-]+(?:#\d+)?")
_OP = re.compile(r'(?:(%[\w.$-]+)(?::(\d+))? = )?"?([a-z_0-9]+\.[a-z_0-9.]+)"?')
_FOR = re.compile(r"\s*(?:unsigned )?(%[\w.$-]+) = (%[\w.$-]+(?:#\d+)?) to (%[\w.$-]+(?:#\d+)?) step (%[\w.$-]+(?:#\d+)?)")
_CARRIED = re.compile(r"(%[\w.$-]+) = (%[\w.$-]+(?:#\d+)?)")
_TILES = re.compile(r"tensor<([\dx]+)x(\w+)[^>]*> \* tensor<([\dx]+)x(\w+)[^>]*>")


class Op:
    __slots__ = ("name", "results", "operands", "text", "regions", "own", "carried", "bounds", "within", "needed", "settled")

    def __init__(self, name, results, operands, text, sites=()):
        self.name, self.results, self.operands, self.text = name, results, operands, text
        self.regions = []  # lists of ops
        self.own, self.carried, self.bounds = None, [], ()  # a loop's: its number, pairs of names inside and outside, and where it begins and ends, and its step
        self.within = name in sites  # or what is in it
        self.needed = False
        self.settled = False  # a loop of which each round does as much
        if name == "scf.for":
            head = _FOR.match(text)
            self.own, *self.bounds = head.groups()
            text = text[head.end():]
        if name in ("scf.for", "scf.while") and "(" in text.split("->")[0]:
            at = text.index("(")
            self.carried = _CARRIED.findall(text[at:text.index(")", at)])

    def handed_on(self, region):
        last = self.regions[region][-1:]
        return last[0].operands if last and last[0].name in ("scf.yield", "scf.condition") else []


def _line(text):
    """Without where it stood in the program's source, which is told behind each operation."""
    text = text.strip()
    at = text.find(" loc(")
    return text if at < 0 else text[:at] + (" {" if text.endswith("{") else "")


_HEAD = re.compile(r"%([\w.$-]+): (?:!tt\.tensordesc<tensor<([\dx]+)x|i32|i64)")


def _described(text):
    """Sizes and strides of descriptors, which are arguments behind each -> what these are called."""
    named, rest, base = {}, [], ""
    for name, sizes in _HEAD.findall(next((line for line in text.split("\n") if "tt.func public" in line), "")):
        if sizes:
            axes = range(sizes.count("x") + 1)
            base, rest = name, ["shape.%d" % i for i in axes] + ["stride.%d" % i for i in axes]
        elif rest:
            named["%s.%s" % (base, rest.pop(0))] = name
    return named


def _arguments(label):
    return Op("block.arguments", _NAME.findall(label.split("//")[0]), [], "")


class _Parser:
    def __init__(self, text, sites):
        self.sites = sites
        self.lines = iter([_line(line) for line in text.split("\n")])

    def blocks(self):
        """Of the one function there is: label -> ops, "" the first."""
        if not any(line.startswith("tt.func public") for line in self.lines):
            raise Untold
        blocks, label, ops = {}, "", []
        while True:
            block, end = self.ops()
            blocks[label] = ops + block
            if not end.startswith("^"):
                return blocks
            label, ops = re.match(r"\^\w+", end).group(), [_arguments(end)]

    def ops(self):
        """Up to the line that ends them, which is returned, too."""
        ops = []
        for line in self.lines:
            if line.startswith(("}", "^")):
                return ops, line
            match = _OP.match(line)
            if not match:
                continue
            base, several, name = match.groups()
            results = [] if base is None else [base] if several is None else ["%s#%d" % (base, i) for i in range(int(several))]
            op = Op(name, results, _NAME.findall(line[match.end():]), line[match.end():], self.sites)
            ops.append(op)
            if line.endswith("({"):
                self.skip()
                continue
            while line.endswith("{"):
                region, line = self.ops()
                if line.startswith("^"):  # a while's second part names what it is given
                    given = _arguments(line)
                    region, line = self.ops()
                    region.insert(0, given)
                op.regions.append(region)
                op.within |= any(inner.within for inner in region)
        raise Untold

    def skip(self):
        """Of an operation whose body is told in the general way: a sum's, a scan's. It multiplies no tiles."""
        depth = 1
        while depth > 0:
            line = next(self.lines)
            depth += line.endswith("({") - line.startswith("})")


class Kernel:
    """A kernel's loops and conditions, as far as operations of @sites' names hang on them. @summed: what a launch is told of, of how often those are done."""

    def __init__(self, text, sites, summed):
        if "tt.call" in text:
            raise Untold  # functions that are called
        self.sites, self.summed = sites, summed
        self.seen = {}  # what a launch is like -> what it is told of, and what was read in memory to tell that
        self.blocks = _Parser(text, sites).blocks()
        self.described = _described(text)
        self.wanted = set()  # names of what bounds and conditions around them hang on
        before = -1
        while before != len(self.wanted):
            before = len(self.wanted)
            for ops in self.blocks.values():
                self.want(ops)
        self.axes = {op.text.split()[0] for op in self.every(self.blocks.values()) if op.name == "tt.get_program_id" and op.needed}
        for op in self.every(self.blocks.values()):
            op.settled = op.name == "scf.for" and self.wanted.isdisjoint([op.own, *(inner for inner, _ in op.carried), *op.results])

    def every(self, regions):
        for region in regions:
            for op in region:
                yield op
                yield from self.every(op.regions)

    def want(self, ops):
        for op in ops:
            if op.name in self.sites and self.wanted.isdisjoint(op.results) or not (op.within or op.name.startswith("cf.") or not self.wanted.isdisjoint(op.results)):
                continue
            op.needed = True
            if op.name == "scf.for":
                self.wanted.update(op.bounds)
                for (inner, outer), result, handed in zip(op.carried, op.results, op.handed_on(0)):
                    if inner in self.wanted or result in self.wanted:
                        self.wanted.update((inner, outer, handed))
            elif op.name == "scf.while":
                self.wanted.update(name for pair in op.carried for name in pair)
                self.wanted.update(name for i in range(len(op.regions)) for name in op.handed_on(i))
            elif op.name == "scf.if":
                self.wanted.update(op.operands[:1])
                for i in range(len(op.regions)):
                    self.wanted.update(name for result, name in zip(op.results, op.handed_on(i)) if result in self.wanted)
            else:
                self.wanted.update(op.operands)
            for region in op.regions:
                self.want(region)

    def told(self, given, grid):
        """Of a launch."""
        given = {self.described.get(name, name): value for name, value in given.items()}
        key = grid, tuple((name, value) for name, value in given.items() if "%" + name in self.wanted)
        told, read = self.seen.get(key, (None, {}))
        if told is None or any(_read(*place) != value for place, value in read.items()):
            counts, read = self.counts(given, grid)
            told = self.summed(self, counts)
            if len(self.seen) >= KEPT:
                self.seen.clear()
            self.seen[key] = told, read
        return told

    def counts(self, given, grid):
        """Of each site how often all programs come to it (infinite: it is not known), and how often they enter the loop around it; and what was read in memory."""
        sizes = [size if axis in self.axes else 1 for axis, size in zip("xyz", grid)]
        all = math.prod(sizes)
        step = next(step for step in range(int(all * 0.618) + 1, all + 2) if math.gcd(step, all) == 1)  # spread evenly, however far we come
        run = _Run(self, given, grid)
        done = 0
        while done < min(all, PROGRAMS) and run.steps < STEPS:
            program = done * step % all
            run.program((program % sizes[0], program // sizes[0] % sizes[1], program // (sizes[0] * sizes[1])))
            done += 1
        scale = math.prod(grid) / max(done, 1)
        return {site: (times * scale, entered * scale) for site, (times, entered) in run.counts.items() if times > 0}, run.read


def _read(kind, where):
    """A whole number in memory; None: it is not known."""
    return WHOLE[kind].from_address(where).value if _library.pretend_known(where, ctypes.sizeof(WHOLE[kind])) else None


def _pointed(text):
    """Of what type it is that a pointer points to."""
    return re.split("[>,]", text.rsplit("ptr<", 1)[-1])[0]


class _Run:
    """Programs of the grid, one after another."""

    def __init__(self, kernel, given, grid):
        self.kernel, self.given, self.grid = kernel, {"%" + name: value for name, value in given.items()}, grid
        self.counts = {}  # site -> [times, entered]
        self.read = {}  # type and address -> value
        self.steps = 0

    def program(self, ids):
        self.ids, self.values = ids, dict(self.given)
        label = ""
        while label is not None:
            label = self.block(self.kernel.blocks[label])

    def block(self, ops):
        """Where it goes on."""
        for op in ops:
            if not op.name.startswith("cf."):
                self.one(op, 1, 1)
                continue
            ways = re.findall(r"(\^\w+)(\([^)]*\))?", op.text)
            taken = 0
            if op.name == "cf.cond_br":
                condition = self.values.get(op.operands[0])
                if condition is None:  # an early end is not taken
                    condition = any(inner.within for inner in self.kernel.blocks[ways[0][0]])
                taken = 0 if condition else 1
            label, handed = ways[taken]
            self.hand(self.kernel.blocks[label][0].results, [self.values.get(name) for name in _NAME.findall(handed)])
            self.step()
            return label
        return None

    def step(self):
        self.steps += 1
        if self.steps > 2 * STEPS:
            raise Untold

    def hand(self, names, values):
        self.values.update(zip(names, values))

    def region(self, op, which, times, entered):
        """What it hands on."""
        for inner in op.regions[which]:
            self.one(inner, times, entered)
        return [self.values.get(name) for name in op.handed_on(which)]

    def one(self, op, times, entered):
        if op.name in self.kernel.sites:
            site = self.counts.setdefault(op, [0, 0])
            site[0] += times
            site[1] += entered
        if not op.needed:
            return
        self.step()
        if op.name == "scf.for":
            self.loop(op, times)
        elif op.name == "scf.while":
            self.while_loop(op, times)
        elif op.name == "scf.if":
            self.branch(op, times, entered)
        elif op.results and op.name != "block.arguments":
            try:
                self.values[op.results[0]] = self.value(op)
            except (TypeError, ValueError, ZeroDivisionError, OverflowError):  # of what is not known
                self.values[op.results[0]] = None

    def loop(self, op, times):
        first, end, step = (self.values.get(name) for name in op.bounds)
        inside, outside = [inner for inner, _ in op.carried], [outer for _, outer in op.carried]
        if None in (first, end, step) or step <= 0:
            self.untold(op, times)
            return
        rounds = max(0, -(-(end - first) // step))
        self.hand(inside, [self.values.get(name) for name in outside])
        hands_on = any(self.values.get(name) is not None for name in inside if name in self.kernel.wanted)
        if rounds > ROUNDS and hands_on and not op.settled:
            self.untold(op, times)
            return
        most = 1 if op.settled else rounds if hands_on else SOME
        looked_at = range(rounds) if rounds <= most else [(2 * i + 1) * rounds // (2 * most) for i in range(most)]
        for i in looked_at:
            self.values[op.own] = first + i * step
            self.hand(inside, self.region(op, 0, times * rounds / len(looked_at), times / len(looked_at)))
        self.hand(op.results, [self.values.get(name) for name in inside])

    def while_loop(self, op, times):
        self.hand([inner for inner, _ in op.carried], [self.values.get(outer) for _, outer in op.carried])
        for _ in range(ROUNDS):
            goes_on, *handed = self.region(op, 0, times, times)
            if goes_on is None:
                self.untold(op, times)
                return
            if not goes_on:
                self.hand(op.results, handed)
                return
            self.hand(op.regions[1][0].results, handed)
            self.hand([inner for inner, _ in op.carried], self.region(op, 1, times, times))
        self.untold(op, times)

    def untold(self, loop, times):
        """How often it goes round is not known."""
        if self.kernel.sites is PRODUCTS and loop.within:
            raise Untold
        for op in self.kernel.every(loop.regions):
            if op.name in self.kernel.sites:
                site = self.counts.setdefault(op, [0, 0])
                site[:] = (site[0] + times, site[1] + times) if _shape(op) == () else (math.inf, math.inf)
        self.hand(loop.results, [None] * len(loop.results))

    def branch(self, op, times, entered):
        condition = self.values.get(op.operands[0])
        which = 0 if condition or condition is None else 1
        if condition is None and not any(inner.within for inner in op.regions[0]) and len(op.regions) > 1 and any(inner.within for inner in op.regions[1]):
            which = 1
        handed = self.region(op, which, times, entered) if which < len(op.regions) else []
        self.hand(op.results, handed if condition is not None else [None] * len(op.results))

    def value(self, op):
        name = op.name.split(".", 1)[1]
        given = [self.values.get(operand) for operand in op.operands]
        if op.name == "arith.constant":
            text = op.text.split(":")[0].split("{")[0].strip()
            return {"true": 1, "false": 0}[text] if text in ("true", "false") else float(text) if "." in text else int(text, 0)
        if op.name == "tt.get_program_id":
            return self.ids["xyz".index(op.text.split()[0])]
        if op.name == "tt.get_num_programs":
            return self.grid["xyz".index(op.text.split()[0])]
        if op.name == "arith.select":
            return None if given[0] is None else given[1] if given[0] else given[2]
        if op.name == "arith.andi" and 0 in given:
            return 0
        if None in given:
            return None
        if name in ("cmpi", "cmpf"):
            return int(_COMPARED[op.text.split(",")[0].strip()[-2:]](*given))  # "slt", "ult", "olt"
        if op.name == "tt.addptr":
            kind = _pointed(op.text)
            return given[0] + given[1] * (1 if kind.startswith("f8") else BYTES[kind])
        if op.name == "tt.load" and "tensor<" not in op.text and _pointed(op.text) in WHOLE:
            place = _pointed(op.text), given[0]
            self.read[place] = _read(*place)
            return self.read[place]
        return _COMPUTED[name](*given) if name in _COMPUTED else None


def _sizes(op):
    """(batch, m, n, k, type) of a product of tiles."""
    match = _TILES.search(op.text)
    if not match:
        raise Untold
    left, right = ([int(size) for size in match.group(i).split("x")] for i in (1, 3))
    kind = match.group(2)
    *batch, m, k = left
    if op.name == "tt.dot_scaled":
        sides = re.search(r"lhs = (\w+) rhs = (\w+)", op.text).groups()
        kind = max(sides, key=lambda side: {"e2m1": 4, "e4m3": 8, "e5m2": 8}.get(side, 16))
        k = 2 * k if sides[0] == "e2m1" else k  # two elements a byte
    kind = "tf32" if kind == "f32" and "tf32" in op.text else TYPES.get(kind)
    if kind is None:
        raise Untold
    return math.prod(batch), m, right[-1], k, kind


def _attends(region, sites):
    """Whether it makes two products, and the second of exponentials of the first."""
    made, exponentials = set(), set()
    first, *more = [op for op in region if op in sites]
    for op in region:
        if op in more:
            return len(more) == 1 and not exponentials.isdisjoint(op.operands[:2])
        if op is first or not made.isdisjoint(op.operands):
            made.update(op.results)
        if op.name.startswith("math.exp") and not made.isdisjoint(op.operands) or not exponentials.isdisjoint(op.operands):
            exponentials.update(op.results)
    return False


def _multiplied(kernel, sites):
    """(operations, their type, the launch as that of one product, or of attention; or "")."""
    if not sites:
        return 0, "", ""
    sizes = {op: _sizes(op) for op in sites}
    types = {}
    for op, (batch, m, n, k, kind) in sizes.items():
        types[kind] = types.get(kind, 0) + 2 * batch * m * n * k * sites[op][0]
    kind = max(types, key=types.get)
    operations = int(round(sum(types.values())))
    around = [region for op in kernel.every(kernel.blocks.values()) for region in op.regions if any(inner in sites for inner in region)]
    if around and all(_attends(region, sites) for region in around):
        scores, values = sizes[next(op for op in around[0] if op in sites)], [sizes[op] for op in around[0] if op in sites][1]
        return operations, kind, "class=attention head=%d" % ((scores[3] + values[2]) // 2)
    if len(sites) != 1 or kind == "f64":
        return operations, kind, ""
    (op, (times, entered)), = sites.items()
    batch, m, n, k, _ = sizes[op]
    tiles = max(round(entered * batch), 1)
    deep = max(round(times / max(entered, 1)), 1) * k
    rows = next((rows for rows in range(math.isqrt(tiles), 0, -1) if tiles % rows == 0 or math.isqrt(tiles) - rows > 4096), 1)  # as square as their number lets it be
    launch = "product=1x%dx%dx%d operand_bytes=%d class=product tile=%dx%dx%d" % (
        rows * m, -(-tiles // rows) * n, deep, {"tf32": 4, "f32": 4, "bf16": 2, "f16": 2}.get(kind, 1), m, n, k)
    return operations, kind, launch + (" stages=%d" % min(kernel.stages, 255) if kernel.stages > 0 else "")


_PASSED_ON = ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.bitcast", "tt.advance", "tt.make_tensor_ptr")


def _array_of(kernel, pointer):
    """The name of the argument that a pointer, or a tile of them, was computed from; None: it lay in memory."""
    for _ in range(len(kernel.made)):
        op = kernel.made.get(pointer)
        if op is None:
            return pointer
        if isinstance(op, str):  # what a loop begins with
            pointer = op
        elif op.name in _PASSED_ON and op.operands:
            pointer = op.operands[0]
        elif op.name in ("tt.load", "tt.int_to_ptr"):
            return None
        else:
            raise Untold("which arrays it uses hangs on conditions")
    return None


def _made(kernel):
    """name -> the operation that makes it, or the name that a loop's own begins with."""
    made = {}
    for op in kernel.every(kernel.blocks.values()):
        made.update((name, op) for name in op.results)
        if op.name in ("scf.for", "scf.while"):
            made.update(op.carried)
            if op.name == "scf.for":
                made.update(zip(op.results, (outer for _, outer in op.carried)))
    return made


_POINTERS = re.compile(r"(?:tensor<([\dx]+)x)?!tt\.ptr<(?:tensor<([\dx]+)x)?(\w+)")


def _shape(op):
    """Of a tile that is loaded or stored, told by the type of its pointers; () of an element alone."""
    match = _POINTERS.search(op.text)
    if not match:
        raise Untold
    sizes = match.group(1) or match.group(2)
    return tuple(int(size) for size in sizes.split("x")) if sizes else ()


def _tile_bytes(op):
    kind = _POINTERS.search(op.text).group(3)
    return max(math.prod(_shape(op)) * (1 if kind.startswith("f8") else BYTES[kind]), SECTOR)


def _moved(kernel, sites):
    """Argument -> [bytes that are read of it, and written]; infinite: not known how many."""
    kernel.made = kernel.made or _made(kernel)
    moved = {}
    for op, (times, _) in sites.items():
        array = _array_of(kernel, op.operands[0])
        each = moved.setdefault(array, [0, 0])
        for i, kinds in enumerate((LOADS + BOTH, STORES + BOTH)):
            each[i] += times * _tile_bytes(op) if op.name in kinds else 0
    moved.pop(None, None)
    return moved


def _numbers(names, values):
    """Arguments by the names that the intermediate language has them by: numbers, and addresses; of a descriptor its sizes and strides."""
    given = {}

    def tell(name, value):
        if type(value) in (int, bool, float):
            given[name] = value
        elif hasattr(value, "data_ptr"):
            given[name] = value.data_ptr()
        elif hasattr(value, "base") and hasattr(value, "shape"):
            given.update(("%s.shape.%d" % (name, i), size) for i, size in enumerate(value.shape))
            given.update(("%s.stride.%d" % (name, i), step) for i, step in enumerate(value.strides))
        elif isinstance(value, tuple):
            for i, one in enumerate(value):
                tell("%s.%d" % (name, i), one)

    for name, value in zip(names, values):
        tell(name, value)
    return given


class _Written:
    """A kernel that was written in Triton: what it multiplies (None: nothing, or it is not told), and what it moves (likewise)."""

    def __init__(self, name, text, stages):
        self.name = name
        self.products = self.kernel(text, PRODUCTS, _multiplied, UNTOLD_PRODUCTS) if "tt.dot" in text else None
        described = "tensordesc" in text or "tt.descriptor" in text or "tt.experimental" in text  # by what is no pointer
        self.moves = None if described else self.kernel(text, MOVES, _moved, UNTOLD_MOVES)
        for kernel in (self.products, self.moves):
            if kernel is not None:
                kernel.stages, kernel.made = stages, None

    def kernel(self, text, sites, summed, said):
        try:
            return Kernel(text, sites, summed)
        except Exception as error:
            self.say(said, "it calls functions that are compiled apart" if isinstance(error, Untold) else "%s: %s" % (type(error).__name__, error))
            return None

    def say(self, said, why):
        if (self.name, said) not in _said:
            _said.add((self.name, said))
            sys.stderr.write("echelon capture: " + said % (self.name, why) + "\n")

    def launch(self, names, values, grid, launch):
        """Launches it, telling what it multiplies and moves."""
        given = _numbers(names, values)
        multiplied = moved = None
        if self.products is not None:
            multiplied = self.told(self.products, given, grid, UNTOLD_PRODUCTS)
        if self.moves is not None and given:
            moved = self.told(self.moves, given, grid, UNTOLD_MOVES)
        told = []  # which live as long as the launch
        if multiplied and multiplied[0] > 0:
            operations, *texts = multiplied
            told += [text.encode() for text in texts]
            _library.pretend_products_of(operations, *told)
        if moved:
            there = {name: _behind(value) for name, value in zip(names, values) if hasattr(value, "untyped_storage")}
            rows = [(given[name[1:]], *(_whole(bytes, there.get(name[1:], math.inf)) for bytes in each)) for name, each in moved.items() if type(given.get(name[1:])) is int]
            told.append((ctypes.c_uint64 * (3 * len(rows)))(*(number for row in rows for number in row)))
            _library.pretend_moves_of(len(rows), told[-1])
        try:
            return launch()
        finally:
            if told:
                _library.pretend_products_of(0, None, None)
                _library.pretend_moves_of(0, None)

    def told(self, kernel, given, grid, said):
        try:
            return kernel.told(given, grid)
        except Untold as untold:
            self.say(said, str(untold) or "its loops hang on what is computed")
        except Exception as error:
            self.say(said, "%s: %s" % (type(error).__name__, error))
        return None


def _behind(tensor):
    """Bytes that lie from where it begins on."""
    return tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.element_size()


def _whole(bytes, there):
    return NOT_KNOWN if bytes == math.inf else int(min(bytes, there))


_kernels = {}  # text -> _Written; None: there is nothing to be told of it
_said = set()


def _kernel_of(name, text, stages):
    if text not in _kernels:
        written = _Written(name, text, stages) if text else None
        _kernels[text] = written if written is not None and (written.products is not None or written.moves is not None) else None
    return _kernels[text]


def _telling(compiled, launch):
    kernel = _kernel_of(compiled.name, compiled.asm.get("ttir", ""), getattr(compiled.metadata, "num_stages", 0) or 0)
    if kernel is None:
        return launch
    function = getattr(compiled.src, "fn", None)
    names = list(getattr(function, "arg_names", ()))
    varying = [one.name for one in getattr(function, "params", ()) if not one.is_constexpr]  # up to 3.1 constants are not handed over

    def told(x, y, z, *rest):
        values = rest[6:]  # behind the stream, the function, two kinds of what it is like, and who is called before and after
        of = names if len(values) == len(names) else varying if len(values) == len(varying) else []
        return kernel.launch(of, values, (x, y, z), lambda: launch(x, y, z, *rest))

    return told


def install(finder):
    finder.when("triton.compiler.compiler", _compiled, "what kernels in Triton multiply and move is not told")
    finder.when("torch._inductor.runtime.static_triton_launcher", _static, "what compiled kernels in Triton multiply is not told")


def _compiled(module):
    kind = module.CompiledKernel
    begin = kind._init_handles

    @functools.wraps(begin)
    def begun(self, *given):
        before = self.__dict__.get("module")
        begin(self, *given)
        name = "_run" if "_run" in self.__dict__ else "run"  # the latter up to 3.1
        if before is None and callable(self.__dict__.get(name)):
            setattr(self, name, _telling(self, self.__dict__[name]))

    kind._init_handles = begun


def _static(module):
    """TorchInductor keeps of what it compiled the machine code alone."""
    kind = module.StaticallyLaunchedTritonKernel
    make, launch = kind.__init__, kind.run

    @functools.wraps(make)
    def made(self, kernel, *rest, **named):
        make(self, kernel, *rest, **named)
        self.echelon_text = kernel.asm.get("ttir", ""), getattr(kernel.metadata, "num_stages", 0) or 0

    @functools.wraps(launch)
    def run(self, x, y, z, stream, *values):
        text, stages = getattr(self, "echelon_text", ("", 0))
        kernel = _kernel_of(self.name, text, stages) if text else None
        if kernel is None:
            return launch(self, x, y, z, stream, *values)
        names = [name for i, name in enumerate(self.arg_names) if i not in self.full_constexprs and name not in self.full_constexprs]
        return kernel.launch(names if len(names) == len(values) else [], values, (x, y, z), lambda: launch(self, x, y, z, stream, *values))

    kind.__init__, kind.run = made, run
