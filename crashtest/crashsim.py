#!/usr/bin/env python3
"""crashsim - what would be on disk if the power failed now, and does the program still open it?

  crashsim.py record --dir DIR --trace T [--so libcrashsim.so] -- PROGRAM ARGS...
      run PROGRAM with every change below DIR recorded into T. DIR's content at the start is saved in
      T.base. What PROGRAM writes to descriptor 1 with write(2) is one acknowledgement per line.
  crashsim.py stat --trace T
      what a trace holds
  crashsim.py check --trace T (--verify 'CMD {dir} {acks} {n}' | --serve 'CMD') [options]
      build crash states of the trace and judge each one. CMD gets the directory, a file with all
      acknowledgements (one a line) and how many of them, counted from the top, were made before the
      crash. --verify: one process per state, exit 0 = sound. --serve: one lasting process per worker that
      reads "DIR<tab>ACKS<tab>N" lines and answers each with "ok" or "bad: why"; its death is a bad state.
  crashsim.py faults --dir DIR --verify 'CMD {dir} {acks} {n}' --fail CALL:ERRNO[:sticky|:lands] [--max N] -- PROGRAM ARGS...
      run PROGRAM once per n, failing its n-th CALL (write, sync, trunc, open) with ERRNO (EIO, ENOSPC, ...,
      or SHORT), from an empty DIR each time, until a run has no n-th call; verify after every run.
      With --crash the trace of each run is also crash-checked (a failed sync's data may be lost for good).
  crashsim.py kill --dir DIR --verify ... [--max N] [--step N] -- PROGRAM ARGS...
      run PROGRAM once per n and SIGKILL it just before its n-th change; verify after every run.

The crash model (check): a write is durable when a sync of its file began after it and succeeded, or when
its descriptor had O_SYNC/O_DSYNC. At every point of the trace, each write that is not durable may be absent,
whole, or torn (any subset of its --sector byte blocks), independently of the others; sizes follow what
landed (plus a state with the size but zeros as data). The states tried at a point: all, none, each one
missing, each one alone, the newest one torn at each boundary (head and tail, with and without the others),
and --random random ones. Equal states are judged once. --names ext4: creations, renames and removals reach
the disk in order, at the latest with a sync of the file concerned, or of any directory. --names posix: only
a sync of the directory makes them durable, and they may land in any order. Data of a failed sync is never
made durable by a later sync (what Linux does after a failed write-back).
"""
import argparse, hashlib, os, random, shlex, shutil, struct, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor
from queue import Queue

OPEN, WRITE, TRUNC, SYNCB, SYNCE, RENAME, UNLINK, MKDIR, RMDIR, LINK, ACK, MAP = range(1, 13)
NAMES = "? open write trunc sync-begin sync-end rename unlink mkdir rmdir link ack map".split()
HDR = struct.Struct("<IIIIQQQQIIQ")
HERE = os.path.dirname(os.path.abspath(__file__))


class Rec:
    __slots__ = ("op", "pid", "aux", "ino", "off", "token", "path", "path2", "data")


def read_trace(path):
    raw = memoryview(open(path, "rb").read())
    out, i = [], 0
    while i + HDR.size <= len(raw):
        magic, op, pid, aux, ino, off, ln, token, pl, p2l, _ = HDR.unpack_from(raw, i)
        if magic != 0x43524153:
            raise SystemExit(f"{path}: not a trace at byte {i}")
        if i + HDR.size + pl + p2l + ln > len(raw):
            break                                   # the process died while writing it
        r = Rec()
        r.op, r.pid, r.aux, r.ino, r.off, r.token = op, pid, aux, ino, off, token
        i += HDR.size
        r.path = bytes(raw[i:i + pl]).decode("utf8", "surrogateescape"); i += pl
        r.path2 = bytes(raw[i:i + p2l]).decode("utf8", "surrogateescape"); i += p2l
        r.data = bytes(raw[i:i + ln]); i += ln
        out.append(r)
    return out


class Item:
    """One change of a file's bytes that is not (yet) known to be durable."""
    __slots__ = ("off", "data", "size", "must", "poison")

    def __init__(self, off, data, size=None):
        self.off, self.data, self.size, self.must, self.poison = off, data, size, False, False


class File:
    __slots__ = ("base", "items", "last")

    def __init__(self, base=b""):
        self.base, self.items = bytearray(base), []
        self.last = None                            # the choice that was made last, its bytes and their digest

    def settle(self):
        n = 0
        for it in self.items:
            if not it.must:
                break
            put(self.base, it, None, 0)
            n += 1
        if n:
            del self.items[:n]
            self.last = None


def put(buf, it, mask, sector):
    """Apply an item to a bytearray. mask None: whole; else a set of block numbers relative to the first block."""
    if it.size is not None:
        if len(buf) > it.size:
            del buf[it.size:]
        else:
            buf.extend(bytes(it.size - len(buf)))
        return
    if mask is None:
        pieces = ((it.off, it.data),)
    else:
        pieces = tuple(blocks(it, mask, sector))
    for o, d in pieces:
        if len(buf) < o:
            buf.extend(bytes(o - len(buf)))
        buf[o:o + len(d)] = d


def nblocks(it, sector):
    return 1 if it.size is not None else (it.off + len(it.data) - 1) // sector - it.off // sector + 1


def blocks(it, mask, sector):
    first, end = it.off // sector, it.off + len(it.data)
    for b in sorted(mask):
        s, e = max(it.off, (first + b) * sector), min(end, (first + b + 1) * sector)
        yield s, it.data[s - it.off:e - it.off]


class World:
    """Names and files; fed one record at a time; gives the crash states at the present point."""

    def __init__(self, base, strict, ignore):
        self.files, self.byino, self.nid = {}, {}, 0
        self.names, self.nsops = {}, []             # durable names: path -> id or None for a directory; pending ops
        self.cur, self.strict, self.ignore = {}, strict, ignore
        self.syncs, self.maps = {}, set()
        if base and os.path.isdir(base):
            for d, ds, fs in os.walk(base):
                rel = os.path.relpath(d, base)
                for x in ds:
                    self.names[os.path.normpath(os.path.join(rel, x))] = None
                for x in fs:
                    p = os.path.normpath(os.path.join(rel, x))
                    self.names[p] = self.new(open(os.path.join(d, x), "rb").read())
        self.cur = dict(self.names)

    def new(self, data=b""):
        self.nid += 1
        self.files[self.nid] = File(data)
        return self.nid

    def fid(self, r):
        i = self.byino.get(r.ino)
        if i is None:
            i = self.cur.get(r.path)
            if i is None:
                i = self.new()
                self.cur[r.path] = self.names[r.path] = i
            self.byino[r.ino] = i
        return i

    def ns(self, kind, a, b=None, i=None):
        self.nsops.append([kind, a, b, i])
        apply_name(self.cur, self.nsops[-1])

    def feed(self, r):
        """True when the crash states may have changed."""
        op = r.op
        if op == OPEN:
            if r.aux & 1:
                i = self.new()
                self.byino[r.ino] = i
                self.ns("add", r.path, i=i)
                return True
            if r.aux & 2:
                self.files[self.fid(r)].items.append(Item(0, b"", 0))
                return True
        elif op in (WRITE, TRUNC):
            f = self.files[self.fid(r)]
            it = Item(r.off, r.data) if op == WRITE else Item(0, b"", r.off)
            f.items.append(it)
            return True
        elif op == SYNCB:
            i = self.byino.get(r.ino) if r.ino in self.byino else (self.fid(r) if self.cur.get(r.path) else None)
            self.syncs[r.token] = (i, list(self.files[i].items) if i else [], len(self.nsops), r.path)
        elif op == SYNCE:
            i, items, n, path = self.syncs.pop(r.token)
            if r.aux:                               # failed: these bytes may never reach the disk
                for it in items:
                    it.poison = True
                return True
            for it in items:
                if not it.poison:
                    it.must = True
            if i:
                self.files[i].settle()
            self.settle_names(i, n, path)
            return True
        elif op == RENAME:
            self.ns("mv", r.path, r.path2)
            return True
        elif op == LINK:
            self.ns("add", r.path2, i=self.cur.get(r.path) or self.byino.get(r.ino))
            return True
        elif op in (UNLINK, RMDIR):
            self.ns("rm", r.path)
            return True
        elif op == MKDIR:
            self.ns("add", r.path)
            return True
        elif op == MAP:
            self.maps.add(r.path)
        return False

    def written(self, r):
        """After the states at r: a write through O_SYNC or O_DSYNC is durable once it returned."""
        if r.op == WRITE and r.aux & 1:
            f = self.files[self.byino[r.ino]]
            f.items[-1].must = True
            f.settle()

    def settle_names(self, i, n, path):
        n = min(n, len(self.nsops))
        done = []
        if self.strict:
            if i is None:                           # a directory
                done = [k for k in range(n) if any(p is not None and os.path.dirname(p) in (path, path.replace(".", "", 1))
                                                   for p in self.nsops[k][1:3])]
        else:
            last = -1
            for k in range(n):
                o = self.nsops[k]
                if i is None or o[3] == i or (o[0] == "mv" and self.cur.get(o[2]) == i):
                    last = k
            done = range(last + 1)
        for k in done:
            apply_name(self.names, self.nsops[k])
        gone = set(done)
        self.nsops = [o for k, o in enumerate(self.nsops) if k not in gone]

    def states(self, rnd, nrandom, sector, newest):
        """Yield (label, choice, number of pending name ops that landed or a set of them)."""
        opt = [(i, k) for i, f in self.files.items() for k, it in enumerate(f.items) if not it.must]
        full = {x: None for x in opt}
        nn = len(self.nsops)
        alln = frozenset(range(nn))
        name_sets = [alln]
        if nn:
            if self.strict:
                name_sets += [frozenset()] + [alln - {k} for k in range(nn)][:16]
            else:
                name_sets += [frozenset(range(k)) for k in range(nn)]
        for ns in name_sets:
            yield "all", full, ns
            if opt:
                yield "none", {}, ns
        if not opt:
            return
        pick = opt if len(opt) <= 48 else rnd.sample(opt, 48)
        if len(opt) > 1:
            for x in pick:
                yield "without-one", {y: None for y in opt if y != x}, alln
                yield "only-one", {x: None}, alln
        if newest is not None and opt:
            x = max(opt, key=lambda y: (y[0] == newest, y[1]))
            it = self.files[x[0]].items[x[1]]
            nb = nblocks(it, sector)
            cuts = range(1, nb) if nb <= 24 else sorted(rnd.sample(range(1, nb), 24))
            for c in cuts:
                for m in (frozenset(range(c)), frozenset(range(c, nb))):
                    d = dict(full)
                    d[x] = m
                    yield "torn", d, alln
                    yield "torn-alone", {x: m}, alln
        for _ in range(nrandom):
            p = rnd.choice((0.1, 0.5, 0.9))
            d = {}
            for x in opt:
                it = self.files[x[0]].items[x[1]]
                nb = nblocks(it, sector)
                if nb == 1:
                    if rnd.random() < p:
                        d[x] = None
                else:
                    style = rnd.random()
                    if style < 0.4:
                        if rnd.random() < p:
                            d[x] = None
                    else:
                        m = frozenset(b for b in range(nb) if rnd.random() < p)
                        if m:
                            d[x] = m
            ns = alln if not nn or rnd.random() < 0.5 else rnd.choice(name_sets)
            yield "random", d, ns

    def image(self, choice, names, sector):
        m = dict(self.names)
        for k, o in enumerate(self.nsops):
            if k in names:
                apply_name(m, o)
        out = {}
        for p, i in m.items():
            if p in self.ignore or os.path.basename(p) in self.ignore:
                continue
            if i is None:
                out[p] = None
                continue
            f = self.files[i]
            picked = [(it, choice.get((i, k))) for k, it in enumerate(f.items) if it.must or (i, k) in choice]
            if f.last is None or f.last[0] != picked:
                b = bytearray(f.base)
                for it, mask in picked:
                    put(b, it, mask, sector)
                b = bytes(b)
                f.last = picked, b, hashlib.blake2b(b, digest_size=16).digest()
            out[p] = f.last
        return out


def apply_name(m, o):
    kind, a, b, i = o
    if kind == "add":
        m[a] = i
    elif kind == "rm":
        m.pop(a, None)
    elif kind == "mv" and a in m:
        m[b] = m.pop(a)
        for p in [p for p in m if p.startswith(a + "/")]:
            m[b + p[len(a):]] = m.pop(p)


def digest(img):
    h = hashlib.blake2b(digest_size=16)
    for p in sorted(img):
        d = img[p]
        h.update(f"{p}\0{-1 if d is None else len(d[1])}\0".encode("utf8", "surrogateescape"))
        if d is not None:
            h.update(d[2])
    return h.digest()


def materialise(img, where):
    if os.path.isdir(where):
        for e in os.scandir(where):
            if e.is_dir(follow_symlinks=False):
                shutil.rmtree(e.path)
            elif e.name not in img:
                os.unlink(e.path)
    else:
        os.makedirs(where)
    for p in sorted(img):
        d, full = img[p], os.path.join(where, p)
        if d is None:
            os.makedirs(full, exist_ok=True)
            continue
        if "/" in p:
            os.makedirs(os.path.dirname(full), exist_ok=True)
        fd = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(fd, d) if len(d) < 1 << 30 else sys.exit("file too large for crashsim")
        os.close(fd)


class Judge:
    def __init__(self, a, work, k):
        self.a, self.dir, self.proc = a, os.path.join(work, f"s{k}"), None

    def __call__(self, img, acks, n):
        materialise(img, self.dir)
        if self.a.serve:
            if self.proc is None or self.proc.poll() is not None:
                self.proc = subprocess.Popen(shlex.split(self.a.serve), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            try:
                self.proc.stdin.write(f"{self.dir}\t{acks}\t{n}\n".encode())
                self.proc.stdin.flush()
                ans = self.proc.stdout.readline().decode("utf8", "replace").strip()
            except BrokenPipeError:
                ans = ""
            if ans == "ok":
                return None
            return ans or f"verifier died: {self.proc.wait()}"
        return run_verify(self.a.verify, self.dir, acks, n, self.a.timeout)


def run_verify(cmd, d, acks, n, timeout):
    argv = [x.format(dir=d, acks=acks, n=n) for x in shlex.split(cmd)]
    try:
        r = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"no answer in {timeout} s"
    return None if r.returncode == 0 else f"rc {r.returncode}: {r.stdout.decode('utf8', 'replace').strip()[-300:]}"


def workdir(a):
    base = a.work or ("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir())
    return tempfile.mkdtemp(prefix="crashsim.", dir=base)


def check(a, trace=None, base=None, quiet=False):
    trace, base = trace or a.trace, base or a.trace + ".base"
    recs, rnd = read_trace(trace), random.Random(a.seed)
    w = World(base, a.names == "posix", set(a.ignore))
    work = workdir(a)
    acks, n = os.path.join(work, "acks"), 0
    with open(acks, "wb") as f:
        for r in recs:
            if r.op == ACK:
                f.write(r.data)
    pool, judges = ThreadPoolExecutor(a.jobs), Queue()
    for k in range(a.jobs):
        judges.put(Judge(a, work, k))
    seen, tried, bad, kinds, flight, t0, points = set(), 0, [], {}, [], time.time(), 0

    def one(img, n, label, at):
        j = judges.get()
        try:
            why = j(img, acks, n)
        finally:
            judges.put(j)
        return why, img, n, label, at

    def reap(block):
        while flight and (block or len(flight) > a.jobs * 4 or flight[0].done()):
            why, img, m, label, at = flight.pop(0).result()
            if why:
                bad.append((at, label, m, why))
                if not quiet and len(bad) <= a.show:
                    print(f"BAD at record {at} ({NAMES[recs[at].op]}), state {label}, {m} acks: {why}", flush=True)
                if a.keep and len(bad) <= a.show:
                    materialise(img, os.path.join(a.keep, f"bad{len(bad)}-{at}-{label}"))

    left = sum(1 for r in recs[a.start:] if r.op not in (MAP, SYNCB))
    for at, r in enumerate(recs):
        if at >= a.start and r.op not in (MAP, SYNCB):
            left -= 1
        if r.op == ACK:
            n += r.data.count(b"\n")
            changed = True
        else:
            changed = w.feed(r)
        if not changed:
            continue
        newest = w.byino.get(r.ino) if r.op == WRITE else None
        if at < a.start:
            w.written(r)
            continue
        points += 1
        found, quota = w.states(rnd, a.random, a.sector, newest), sys.maxsize
        if a.limit:                                 # spread over the whole trace: of each point its share, by lot
            quota = int((a.limit - len(seen)) / (left + 1) + rnd.random())
            found = list(found) if quota else []
            rnd.shuffle(found)
        for label, choice, names in found:
            img = w.image(choice, names, a.sector)
            key = (digest(img), n)
            tried += 1
            if key in seen:
                continue
            seen.add(key)
            kinds[label] = kinds.get(label, 0) + 1
            img = {p: d and d[1] for p, d in img.items()}
            flight.append(pool.submit(one, img, n, label, at))
            reap(False)
            quota -= 1
            if quota <= 0:
                break
        w.written(r)
        if (a.limit and len(seen) >= a.limit) or len(bad) >= a.stop:
            break
    reap(True)
    dt = time.time() - t0
    while not judges.empty():
        j = judges.get()
        if j.proc:
            j.proc.stdin.close()
            j.proc.wait()
    pool.shutdown()
    shutil.rmtree(work)
    if not quiet:
        if w.maps - set(a.ignore):
            print("warning: written through a shared map, stores not seen:", ", ".join(sorted(w.maps)))
        print(f"{len(recs)} records, {points} crash points, {n} acks, {tried} states, {len(seen)} distinct judged, "
              f"{len(bad)} bad, {dt:.1f} s, {len(seen) / max(dt, .001):.0f} states/s")
        print("judged by kind:", ", ".join(f"{k} {v}" for k, v in sorted(kinds.items())))
    return bad, len(seen)


def env_for(a, d, **kw):
    e = dict(os.environ, LD_PRELOAD=os.path.abspath(a.so), CRASHSIM_DIR=os.path.realpath(d))
    e.update({k: v for k, v in kw.items() if v is not None})
    return e


def record(a):
    os.makedirs(a.dir, exist_ok=True)
    shutil.rmtree(a.trace + ".base", ignore_errors=True)
    shutil.copytree(a.dir, a.trace + ".base")
    if os.path.exists(a.trace):
        os.unlink(a.trace)
    t = time.time()
    rc = subprocess.run(a.cmd, env=env_for(a, a.dir, CRASHSIM_LOG=os.path.abspath(a.trace)), stdout=subprocess.DEVNULL).returncode
    print(f"rc {rc}, {time.time() - t:.2f} s, trace {os.path.getsize(a.trace)} bytes")
    return stat(a)


def stat(a):
    n, b = {}, 0
    for r in read_trace(a.trace):
        n[NAMES[r.op]] = n.get(NAMES[r.op], 0) + 1
        b += len(r.data) if r.op == WRITE else 0
    print(", ".join(f"{k} {v}" for k, v in sorted(n.items())), f"({b} bytes written)")


def fresh(d):
    shutil.rmtree(d, ignore_errors=True)
    os.makedirs(d)


def sweep(a, kill):
    """faults and kill: one run per n."""
    rcs, bad, runs, states, t0 = {}, 0, 0, 0, time.time()
    tmp = workdir(a)
    acks, count, trace = (os.path.join(tmp, x) for x in ("acks", "count", "trace"))
    for n in range(1, a.max + 1, a.step):
        fresh(a.dir)
        for x in (count, trace):
            if os.path.exists(x):
                os.unlink(x)
        if kill:
            env = env_for(a, a.dir, CRASHSIM_KILL=str(n))
        else:
            call, err = a.fail.split(":", 1)
            env = env_for(a, a.dir, CRASHSIM_FAIL=f"{call}:{n}:{err}", CRASHSIM_COUNT=count, CRASHSIM_LOG=trace if a.crash else None)
        with open(acks, "wb") as out:
            p = subprocess.run(a.cmd, env=env, stdout=out, stderr=subprocess.DEVNULL, timeout=a.timeout)
        runs += 1
        rcs[p.returncode] = rcs.get(p.returncode, 0) + 1
        lines = open(acks, "rb").read().count(b"\n")
        why = run_verify(a.verify, a.dir, acks, lines, a.timeout)
        if not kill and p.returncode < 0 and not why:
            why = f"program died of signal {-p.returncode}"
        if not kill and not why and a.exits and str(p.returncode) not in a.exits.split(","):
            why = f"exit code {p.returncode}, expected one of {a.exits}"
        if why:
            bad += 1
            if bad <= a.show:
                print(f"BAD n={n} rc={p.returncode} acks={lines}: {why}", flush=True)
        if a.crash and not kill and os.path.exists(trace):
            b, s = check(a, trace, "-", quiet=True)
            states += s
            for x in b[:2]:
                print(f"BAD n={n} crash state {x[1]} at {x[0]}, {x[2]} acks: {x[3]}", flush=True)
            bad += len(b)
        if (kill and p.returncode != -9) or (not kill and "hit=0" in (open(count).read() if os.path.exists(count) else "")):
            break
    shutil.rmtree(tmp)
    print(f"{runs} runs, {bad} bad, exit codes {rcs}, {states} crash states, {time.time() - t0:.1f} s")
    return 1 if bad else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("mode", choices=["record", "stat", "check", "faults", "kill"])
    p.add_argument("--dir"); p.add_argument("--trace"); p.add_argument("--so", default=os.path.join(HERE, "libcrashsim.so"))
    p.add_argument("--verify"); p.add_argument("--serve"); p.add_argument("--fail"); p.add_argument("--crash", action="store_true")
    p.add_argument("--sector", type=int, default=512); p.add_argument("--random", type=int, default=20); p.add_argument("--seed", type=int, default=1)
    p.add_argument("--names", choices=["ext4", "posix"], default="ext4"); p.add_argument("--ignore", action="append", default=[], help="file name left out of crash states (e.g. lock.mdb)")
    p.add_argument("--jobs", type=int, default=2); p.add_argument("--limit", type=int, default=0, help="judge at most so many states, spread over all points"); p.add_argument("--start", type=int, default=0)
    p.add_argument("--stop", type=int, default=1000000, help="stop at this many bad states"); p.add_argument("--show", type=int, default=10)
    p.add_argument("--keep", help="copy bad states here"); p.add_argument("--work"); p.add_argument("--timeout", type=float, default=60)
    p.add_argument("--exits", help="exit codes that a failing call may lead to, with commas")
    p.add_argument("--max", type=int, default=1000000); p.add_argument("--step", type=int, default=1); p.add_argument("cmd", nargs="*")
    argv = sys.argv[1:]
    rest = []
    if "--" in argv:
        k = argv.index("--")
        argv, rest = argv[:k], argv[k + 1:]
    a = p.parse_args(argv)
    a.cmd = rest
    if a.mode == "record":
        record(a)
    elif a.mode == "stat":
        stat(a)
    elif a.mode == "check":
        sys.exit(1 if check(a)[0] else 0)
    else:
        sys.exit(sweep(a, a.mode == "kill"))


if __name__ == "__main__":
    main()
