#!/usr/bin/env python3
"""The six workloads of the TPU v1 paper as scheduled XLA programs.

usage: tpu_v1.py FOLDER      writes FOLDER/NAME.v1/program.hlo.txt.gz for mlp0, mlp1, lstm0, lstm1, cnn0, cnn1

Source: Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017, table 1: layers by kind, weights, batch, multiply-adds per
byte of weights. Its shapes are not published; those below are inferred, by these rules, from what is published there, and say so:

  mlp0, mlp1   equal square layers: 5 x 2000 x 2000 (20 M weights), 4 x 1118 x 1118 (5 M); batch 200 and 168 of 8 bits.
  lstm0        "a subset of GNM Translate": six cells of the 1024 units of GNMT, four gates each = 24 FC layers, residual additions from the third cell on,
               five or six element-wise layers a cell = 34; 50.3 of its 52 M weights; batch 64. Half speed (its TOPS are half of what its useful
               multiply-adds make): activations of 16 bits.
  lstm1        600 x 600 matrices (section 7 of the paper, "the matrix used in LSTM1"): nine cells of 600 units, four gates each, and one FC layer at the end
               = 37 FC; a gate has a matrix for its input and one for its state, from the fifth cell on also one for the network's input, so that the
               weights come out: 33.5 of 34 M; two element-wise layers a cell and one = 19. Batch 96, 16 bits, as lstm0.
  cnn0         "DeepMind AlphaGo": boards of 19 x 19 (2888 multiply-adds a weight = 8 boards x 361 points), 48 planes in and one out (Silver et al. 2016),
               depth 256 between (none of its multipliers lie idle): 13 layers of 3 x 3, one of 1 x 1 before and two behind = 16, 7.7 of its 8 M
               weights; batch 8.
  cnn1         "Inception", derived from Inception V2; 72 convolutions, 13 poolings, 4 FC, 100 M weights, 1750 multiply-adds a weight, batch 32, half of the
               multipliers idle for shallow depths: 36 pairs of 3 x 3 from 128 to 256 channels and 1 x 1 back to 128, on 28, 14 and 7 pixels a side as
               the multiply-adds ask; a 3 x 3 pooling before the first and after every third pair; four FC heads on the last 7 x 7 x 128 map, of equal
               size, with the weights that the convolutions leave. Images of 224 x 224 x 3, folded to 56 x 56 x 48, sent in eight parts.
"""
import gzip, os, sys

UB = "S(1)"

# Table 3 of the paper, per cent of the matrix unit's cycles: what the report prints beside its own counters.
COUNTERS = ("array_active", "useful_macs", "unused_macs", "weight_stall", "weight_shift", "non_matrix", "dependency_stall", "input_stall")
MEASURED = {
    "mlp0": (12.7, 12.5, 0.3, 53.9, 15.9, 17.5, 3.3, 6.1),
    "mlp1": (10.6, 9.4, 1.2, 44.2, 13.4, 31.9, 8.4, 8.8),
    "lstm0": (8.2, 8.2, 0.0, 58.1, 15.8, 17.9, 14.6, 5.1),
    "lstm1": (10.5, 6.3, 4.2, 62.1, 17.1, 10.3, 10.6, 2.4),
    "cnn0": (78.2, 78.2, 0.0, 0.0, 0.0, 21.8, 3.5, 3.4),
    "cnn1": (46.2, 22.5, 23.7, 28.1, 7.0, 18.7, 22.8, 0.6),
}


def act(dtype, *dims, host=False):
    """Rows of the Unified Buffer are 256 bytes; shallower arrays from and to the host lie dense."""
    order = ",".join(str(i) for i in reversed(range(len(dims))))
    row = dims[-1] if dims[-1] in (1, 48) else 256
    return f"{dtype}[{','.join(map(str, dims))}]{{{order}:T(1,{row}){'S(5)' if host else UB}}}"


def weight(*dims):
    order = ",".join(str(i) for i in reversed(range(len(dims))))
    return f"s8[{','.join(map(str, dims))}]{{{order}:T(256,256)}}"


def wide(shape, dtype="s32"):
    """The same array inside a fusion, of another type."""
    return dtype + shape[shape.index("["):].replace(UB, "")


def bare(shape):
    return shape[:shape.index("{")]


def sides(shape):
    return [int(n) for n in shape[shape.index("[") + 1:shape.index("]")].split(",")]


class Program:
    def __init__(self, name):
        self.name, self.bodies, self.entry, self.parameters, self.macs, self.weights = name, [], [], 0, 0, 0

    def emit(self, line, root=False):
        self.entry.append(("ROOT " if root else "") + line)

    def parameter(self, name, shape):
        self.emit(f"%{name} = {shape} parameter({self.parameters})")
        self.parameters += 1
        return name, shape

    def send(self, name, array, host):
        """A transfer to or from the host."""
        source, shape = array
        to = shape.replace(UB, "S(5)") if host else shape.replace("S(5)", UB)
        self.emit(f"%{name}.start = ({to}, {shape}, u32[]) copy-start(%{source})")
        self.emit(f"%{name} = {to} copy-done(%{name}.start)")
        return name, to

    def fusion(self, name, shape, arrays, lines, kind="kLoop"):
        inputs = ", ".join(f"p{i}: {bare(s)}" for i, (_, s) in enumerate(arrays))
        body = [f"%{name}.body ({inputs}) -> {bare(shape)} {{"]
        body += [f"  %p{i}.{name} = {s} parameter({i})" for i, (_, s) in enumerate(arrays)]
        body += ["  " + line for line in lines] + ["}", ""]
        self.bodies += body
        self.emit(f"%{name} = {shape} fusion({', '.join('%' + a for a, _ in arrays)}), kind={kind}, calls=%{name}.body")
        return name, shape

    def layer(self, name, shape, arrays, products, function):
        """Products that add up, then the activation function, then back to the width of an activation."""
        lines, wide_shape = [], wide(shape)
        for i, product in enumerate(products):
            lines.append(f"%m{i}.{name} = {wide_shape} {product}")
        total = f"m0.{name}"
        for i in range(1, len(products)):
            lines.append(f"%a{i}.{name} = {wide_shape} add(%{total}, %m{i}.{name})")
            total = f"a{i}.{name}"
        if function == "relu":
            lines.append(f"%zero.{name} = s32[] constant(0)")
            lines.append(f"%zeros.{name} = {wide_shape} broadcast(%zero.{name}), dimensions={{}}")
            lines.append(f"%f.{name} = {wide_shape} maximum(%{total}, %zeros.{name})")
        else:
            lines.append(f"%f.{name} = {wide_shape} {function}(%{total})")
        lines.append(f"ROOT %q.{name} = {shape} convert(%f.{name})")
        return self.fusion(name, shape, arrays, lines, "kOutput")

    def fc(self, name, inputs, n, dtype, function="relu"):
        """@inputs times weights of their own, added up."""
        arrays, products = [], []
        for i, (a, s) in enumerate(inputs):
            m, k = sides(s)
            arrays += [(a, s), self.parameter(f"w{i}.{name}", weight(k, n))]
            products.append(f"dot(%p{2 * i}.{name}, %p{2 * i + 1}.{name}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
            self.macs += m * k * n
            self.weights += k * n
        return self.layer(name, act(dtype, m, n), arrays, products, function)

    def conv(self, name, array, size, depth, valid=False):
        b, h, w, d = sides(array[1])
        kernel = self.parameter(f"w.{name}", weight(size, size, d, depth))
        h2 = 1 if valid else h
        pad = "" if valid or size == 1 else f" pad={size // 2}_{size // 2}x{size // 2}_{size // 2}"
        self.macs += b * h2 * h2 * size * size * d * depth
        self.weights += size * size * d * depth
        product = f"convolution(%p0.{name}, %p1.{name}), window={{size={size}x{size}{pad}}}, dim_labels=b01f_01io->b01f"
        return self.layer(name, act("s8", b, h2, h2, depth), [array, kernel], [product], "relu")

    def pool(self, name, array, stride=1):
        b, h, w, d = sides(array[1])
        shape = act("s8", b, h // stride, w // stride, d)
        if not any(line.startswith("%most ") for line in self.bodies):
            self.bodies += ["%most (a: s8[], b: s8[]) -> s8[] {", "  %a.most = s8[] parameter(0)", "  %b.most = s8[] parameter(1)",
                            "  ROOT %r.most = s8[] maximum(%a.most, %b.most)", "}", ""]
        lines = [f"%least.{name} = s8[] constant(-128)",
                 f"ROOT %w.{name} = {shape} reduce-window(%p0.{name}, %least.{name}), window={{size=1x3x3x1 stride=1x{stride}x{stride}x1 "
                 f"pad=0_0x1_{1 if stride == 1 else 0}x1_{1 if stride == 1 else 0}x0_0}}, to_apply=%most"]
        return self.fusion(name, shape, [array], lines)

    def vector(self, name, arrays, operation):
        """An element-wise layer: "multiply", "add", "tanh"; or cell, the new state of an LSTM cell from its gates."""
        shape, p = arrays[0][1], [f"%p{i}.{name}" for i in range(len(arrays))]
        inner = shape.replace(UB, "")
        if operation == "cell":
            lines = [f"%k.{name} = {inner} multiply({p[1]}, {p[3]})", f"%n.{name} = {inner} multiply({p[0]}, {p[2]})",
                     f"ROOT %r.{name} = {shape} add(%k.{name}, %n.{name})"]
        elif operation == "output":
            lines = [f"%t.{name} = {inner} tanh({p[1]})", f"ROOT %r.{name} = {shape} multiply({p[0]}, %t.{name})"]
        else:
            lines = [f"ROOT %r.{name} = {shape} {operation}({', '.join(p)})"]
        return self.fusion(name, shape, arrays, lines)

    def text(self, outputs):
        if len(outputs) == 1:
            self.entry[-1] = "ROOT " + self.entry[-1]
        else:
            shapes = ", ".join(s for _, s in outputs)
            self.emit(f"%outputs = ({shapes}) tuple({', '.join('%' + n for n, _ in outputs)})", root=True)
        measured = ",".join(f'measured.{c}="{v}"' for c, v in zip(COUNTERS, MEASURED[self.name]))
        self.entry[-1] += f", frontend_attributes={{{measured}}}"
        return "\n".join([f"HloModule {self.name}, is_scheduled=true", ""] + self.bodies + [f"ENTRY %{self.name} {{"] + ["  " + line for line in self.entry] +
                         ["}", ""])


def mlp(name, layers, width, batch):
    p = Program(name)
    x = p.send("x", p.parameter("x.host", act("s8", batch, width, host=True)), False)
    for i in range(layers):
        x = p.fc(f"fc{i}", [x], width, "s8")
    return p, p.text([p.send("y", x, True)])


def lstm(name, cells, width, batch, skip_from, residual_from, whole_cells, last):
    p = Program(name)
    states = [(p.parameter(f"h{c}", act("s16", batch, width)), p.parameter(f"c{c}", act("s16", batch, width))) for c in range(cells)]
    x = first = p.send("x", p.parameter("x.host", act("s16", batch, width, host=True)), False)
    for c in range(cells):
        h, state = states[c]
        inputs = [x, h] + ([first] if c >= skip_from else [])
        i, f, g, o = (p.fc(f"{gate}{c}", inputs, width, "s16", "tanh" if gate == "g" else "logistic") for gate in "ifgo")
        if whole_cells:
            new = p.vector(f"state{c}", [i, f, g, state], "cell")
            x = p.vector(f"out{c}", [o, new], "output")
            continue
        kept, fresh = p.vector(f"keep{c}", [f, state], "multiply"), p.vector(f"fresh{c}", [i, g], "multiply")
        new = p.vector(f"state{c}", [kept, fresh], "add")
        y = p.vector(f"out{c}", [o, p.vector(f"tanh{c}", [new], "tanh")], "multiply")
        x = p.vector(f"residual{c}", [y, x], "add") if c >= residual_from else y
    if last:
        x = p.vector("scores", [p.fc("last", [x], width, "s16", "tanh")], "tanh")
    return p, p.text([p.send("y", x, True)])


def cnn0():
    p = Program("cnn0")
    x = p.send("x", p.parameter("x.host", act("s8", 8, 19, 19, 48, host=True)), False)
    for i in range(15):
        x = p.conv(f"conv{i}", x, 3 if 1 <= i <= 13 else 1, 256)
    x = p.conv("conv15", x, 1, 1)
    return p, p.text([p.send("y", x, True)])


def cnn1():
    p, parts = Program("cnn1"), []
    for i in range(8):
        image = p.send(f"x{i}", p.parameter(f"x{i}.host", act("s8", 4, 56, 56, 48, host=True)), False)
        parts.append(p.pool(f"pool0.{i}", image, stride=2))
    shape = act("s8", 32, 28, 28, 48)
    p.emit(f"%pool0 = {shape} custom-call({', '.join('%' + n for n, _ in parts)}), custom_call_target=\"ConcatBitcast\"")
    x, pools = ("pool0", shape), 0
    for i in range(36):
        x = p.conv(f"conv{i}", x, 3, 256)
        x = p.conv(f"squeeze{i}", x, 1, 128)
        if i % 3 == 2:
            pools += 1
            x = p.pool(f"pool{pools}", x, stride=2 if i in (17, 26) else 1)
    n = (100_000_000 - p.weights) // 4 // (7 * 7 * 128)
    heads = [p.conv(f"fc{i}", x, 7, n, valid=True) for i in range(4)]
    return p, p.text([p.send(f"y{i}", head, True) for i, head in enumerate(heads)])


def main():
    workloads = {
        "mlp0": lambda: mlp("mlp0", 5, 2000, 200),
        "mlp1": lambda: mlp("mlp1", 4, 1118, 168),
        "lstm0": lambda: lstm("lstm0", 6, 1024, 64, 6, 2, False, False),
        "lstm1": lambda: lstm("lstm1", 9, 600, 96, 4, 9, True, True),
        "cnn0": cnn0,
        "cnn1": cnn1,
    }
    for name, make in workloads.items():
        program, text = make()
        folder = os.path.join(sys.argv[1], name + ".v1")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "program.hlo.txt.gz"), "wb") as file:
            file.write(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {program.weights / 1e6:.1f} M weights, {program.macs / program.weights:.0f} multiply-adds a weight")


if __name__ == "__main__":
    sys.exit(__doc__ if len(sys.argv) != 2 else main())
