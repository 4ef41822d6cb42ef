"""Keeps of a capture what happened in the range "step N", with the texts that it names, its times made even: trim.py FILE N > OUT"""
import sys

PLACES = {"push": (2,), "mark": (2,), "kernel": (3,), "library": (3, 4, 8), "collective": (3,)}  # of a line's texts, the word aside
names, kept, numbers, threads, depth = {}, [], {}, {}, 0
for line in open(sys.argv[1]):
    word, *fields = line.rstrip("\n").split(" ")
    if word in ("echelon-pretend", "clock", "device"):
        kept.append(line)
    elif word == "name":
        names[fields[0]] = line.rstrip("\n").split(" ", 2)[2]
    elif not threads and not (word == "push" and names[fields[2]] == f'"step {sys.argv[2]}"') or word in ("alloc", "free"):
        continue
    else:
        if word in ("push", "pop", "mark"):
            fields[1] = threads.setdefault(fields[1], str(len(threads) + 1))
            depth += (word == "push") - (word == "pop") if fields[1] == "1" else 0
        for place in PLACES.get(word, ()):
            if fields[place] not in numbers:
                numbers[fields[place]] = str(len(numbers) + 1)
                kept.append(f"name {len(numbers)} {names[fields[place]]}\n")
            fields[place] = numbers[fields[place]]
        kept.append(" ".join([word, str(1000 * len(kept)), *fields[1:]]) + "\n")
        if depth == 0:
            break
print("".join(kept) + "end")
