"""A hundred ordinary commands, a compiler and a build behave under the library as without it."""

import os
import shutil
import sys
import unittest

from harness import PreloadCase

# One shell command a line. All must print the same in each run; a command that the machine lacks is no reason to fail.
COMMANDS = r"""
true
false
exit 7
echo hello
printf '%s\n' a b c
ls /
ls -ld /usr
ls /no/such/folder
cat /etc/hostname
cat /no/such/file
head -c 100 /etc/passwd
tail -n 1 /etc/passwd
wc -l /etc/passwd
sort /etc/passwd
sort -r /etc/passwd | uniq | head -n 3
cut -d: -f1 /etc/passwd
tr a-z A-Z </etc/passwd
sed 's/:.*//' /etc/passwd
sed -n 1p /etc/passwd
grep root /etc/passwd
grep -c . /etc/passwd
grep nothing-of-the-kind /etc/passwd
grep -E '^r.*t' /etc/passwd
awk -F: '{ print $1 }' /etc/passwd
awk 'BEGIN { for (i = 0; i < 1000; i++) s += i; print s }'
seq 1 1000 | tail -n 1
seq 10 | paste -sd+
expr 6 '*' 7
basename /usr/lib/x.so .so
dirname /usr/lib/x.so
readlink -f /bin/sh
realpath /tmp/..
cd /tmp && pwd
cd / && pwd
stat -c %F /tmp
test -d /tmp
[ 1 -eq 2 ]
id -u
whoami
uname -m
nproc
env -i /bin/echo empty
env -i A=1 /usr/bin/env
sleep 0
touch file && ls && rm file && ls
mkdir -p a/b/c && find . | sort
cp /etc/passwd copy && cmp /etc/passwd copy
mv copy other && ls
ln -s other link && readlink link
chmod 600 other && stat -c %a other
dd if=/dev/zero bs=1024 count=4 2>/dev/null | wc -c
yes | head -n 3
od -c /etc/hostname
md5sum /etc/passwd
sha256sum /etc/passwd
cksum /etc/passwd
base64 /etc/hostname
gzip -c /etc/passwd | gzip -dc
tar cf - /etc/passwd 2>/dev/null | tar tf -
xargs -n 1 echo </etc/hostname
seq 20 | xargs -n 1 -P 4 true
find /usr/bin -name 'l[ns]' | sort
diff /etc/passwd /etc/hostname
comm -12 /etc/hostname /etc/hostname
fold -w 10 /etc/passwd
nl /etc/hostname
tac /etc/passwd
rev /etc/hostname
split -l 1 /etc/passwd part && ls | wc -l
tee one two </etc/hostname && cat one two
timeout 5 true
timeout 0.01 sleep 5
nice true
nohup true 2>/dev/null
kill -l 9
(sh -c 'kill -TERM $$') 2>/dev/null; echo $?
sh -c 'trap "echo trapped" TERM; kill -TERM $$'
for i in 1 2 3; do echo $((i * i)); done
i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i + 1)); done; echo $i
for i in $(seq 50); do (exit $i) & done; wait; echo done
echo $(echo $(echo nested))
cat <<< here
diff <(echo a) <(echo b)
(echo one; echo two >&2) 2>&1
ulimit -n
ulimit -v 2000000; ls -d /
ulimit -s unlimited; true
exec true
type cd
set -e; false; echo not here
readarray -t lines </etc/passwd; echo ${#lines[@]}
bash -c 'echo $0' name
bash --norc -c 'echo ${BASH_VERSINFO[0]}'
dash -c 'echo dash'
perl -e 'print join(",", map { $_ * 2 } 1..5), "\n"'
perl -e 'fork or exit 3; wait; print $? >> 8, "\n"'
python3 -c 'print(sum(range(1000)))'
python3 -c 'import json, re, hashlib; print(json.dumps({"a": 1}))'
python3 -c 'import threading; t = [threading.Thread(target=print, args=(i,)) for i in range(1)]; [x.start() for x in t]'
python3 -c 'import os; print(len(os.listdir("/proc/self/task")))'
python3 -c 'import ctypes; print(ctypes.CDLL(None).abs(-3))'
python3 -c 'import ctypes; print(hasattr(ctypes.CDLL(None), "cuMemAlloc_v2"))'
python3 -c 'import os; [os.waitpid(os.fork() or os._exit(0), 0) for i in range(50)]; print("forked")'
python3 -c 'import multiprocessing as m; print(m.get_context("fork").Pool(2).map(abs, [-1, -2]))'
python3 -c 'import subprocess; print(subprocess.check_output(["echo", "x"]))'
python3 -c 'import sys; sys.exit(9)'
(python3 -c 'import os, signal; os.kill(os.getpid(), signal.SIGTERM)') 2>/dev/null; echo $?
cc --version
ld --version
nm --version
git --version
make --version
""".strip().splitlines()

MAKEFILE = """
objects = $(patsubst %,unit%.o,$(shell seq 24))
program: $(objects)
\t$(CC) -o $@ $^
unit%.o: unit.c
\t$(CC) -c -O1 -DNAME=unit$* -o $@ $<
unit1.o: unit.c
\t$(CC) -c -DMAIN -o $@ $<
"""


class Ordinary(PreloadCase):
    def test_a_hundred_commands(self):
        self.assertGreaterEqual(len(COMMANDS), 100)
        for command in COMMANDS:
            with self.subTest(command=command):
                plain = self.run_program("/bin/bash", "-c", command, preload=None)
                run = self.run_program("/bin/bash", "-c", command)
                self.assertEqual((run.status, run.out, run.err), (plain.status, plain.out, plain.err))
                self.assertEqual(sorted(os.listdir(run.folder)), sorted(os.listdir(plain.folder)))

    def test_no_thread_and_nothing_mapped_but_itself(self):
        script = ("import os; print(len(os.listdir('/proc/self/task')),"
                  "sorted({l.split()[5] for l in open('/proc/self/maps') if len(l.split()) > 5 and '/' in l}))")
        plain = self.run_program(sys.executable, "-c", script, preload=None)
        run = self.run_program(sys.executable, "-c", script)
        count, files = run.out.split(" ", 1)
        self.assertEqual(count, "1")
        new = set(eval(files)) - set(eval(plain.out.split(" ", 1)[1]))
        self.assertEqual({os.path.basename(path) for path in new} - {"libdl.so.2", "libpthread.so.0"}, {"libgpupool.so"})

    def test_a_build(self):
        """Compilers, make and their children, at once: the same files come out."""
        if not shutil.which("make") or not shutil.which("cc"):
            self.skipTest("make or cc is not installed")
        script = ("cat > Makefile; printf '#ifdef MAIN\\nint main(void) { return 0; }\\n#else\\nint NAME(void) "
                  "{ return 1; }\\n#endif\\n' > unit.c; make -s -j4 CC=cc && ./program && ls && cat *.o program | md5sum")
        makefile = os.path.join(self.folder, "makefile")
        with open(makefile, "w") as file:
            file.write(MAKEFILE)
        results = []
        for preload in ({"preload": None}, {}):
            run = self.run_program("/bin/bash", "-c", "exec <" + makefile + "; " + script, **preload)
            self.assertEqual(run.status, 0, run.err)
            results.append((run.out, run.err, sorted(os.listdir(run.folder))))
        self.assertEqual(results[0], results[1])


if __name__ == "__main__":
    unittest.main()
