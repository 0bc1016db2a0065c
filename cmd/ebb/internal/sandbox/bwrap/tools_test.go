//go:build linux

package bwrap_test

import (
	"os/exec"
	"testing"
)

// TestToolsUnderTheFilter: the system call filter allows the calls of common
// tools, as far as they are installed.
//
//ebb:invariant I6 The system call filter allows a sandbox only the calls that common tools need
func TestToolsUnderTheFilter(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"git":     `git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git gc -q`,
		"python3": `python3 -c 'import os, ssl, sqlite3, subprocess, multiprocessing, threading, asyncio; subprocess.run(["true"], check=True); p = multiprocessing.Process(target=print); p.start(); p.join(); assert p.exitcode == 0; asyncio.run(asyncio.create_subprocess_exec("true"))'`,
		"node":    `node -e 'const w = require("worker_threads"); require("child_process").execFileSync("true"); require("fs").promises.readFile("/etc/passwd").then(() => new w.Worker("", {eval: true}).on("exit", process.exit))'`,
		"gdb":     `gdb -q -batch -ex 'break main' -ex run --args /usr/bin/true >g 2>&1; gdb -q -batch -ex run --args /usr/bin/true 2>&1 | grep -q 'exited normally'`,
		"strace":  `strace -f -o trace sh -c 'true; true' && grep -q execve trace`,
		"gcc":     `echo 'int main(void) { return 0; }' >a.c && gcc -o a a.c && ./a`,
		"curl":    `curl --version && curl -s file:///etc/passwd`,
		"gh":      `gh --version`,
		"perl":    `perl -e 'my $p = fork; if (!$p) { exit 0 } waitpid $p, 0; exit $? >> 8'`,
		"tar":     `mkdir d && echo 1 >d/f && tar -czf d.tgz d && tar -tzf d.tgz && find d -type f -exec grep -q 1 {} +`,
		"zsh":     `zsh -fc 'a=$(echo 1); [[ $a = 1 ]]'`,
		"fish":    `fish -c 'true'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(name); err != nil {
				t.Logf("%s is not installed", name)
				return
			}
			newBed(t).Sh("(" + script + ") 2>&1 || exit 3")
		})
	}
}
