// Package programtest provides tare's own programs to tests that start them.
package programtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Variable names a directory with built programs. `make e2e` sets it, so that each program is linked once for all
// packages.
const Variable = "TARE_TEST_PROGRAMS"

const module = "github.com/tare-mesh/tare"

// Build puts programs of cmd (tare, tare-agent) into dir, which exists. They are built as `make build` does: without
// cgo, because an image of tare-agent has no C library.
func Build(dir string, names ...string) error {
	if built := os.Getenv(Variable); built != "" {
		for _, name := range names {
			if err := put(filepath.Join(built, name), filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("programs of %s: %w", Variable, err)
			}
		}
		return nil
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("find the directory of %s: %w", module, err)
	}
	for _, name := range names {
		in := strings.TrimSpace(string(root))
		if name == "tare-kube" { // in a module of its own
			in = filepath.Join(in, "kube")
		}
		build := exec.Command("go", "build", "-C", in, "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, name), "./cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
}

// Port chooses a port that is free on an address of this machine, for a program that cannot bind port 0. It is below
// the ports of outgoing connections (ephemeral ports, from 32768 on Linux), which could take it before the program
// binds it.
func Port(ip string) (port int, err error) {
	const first, last, tries = 10_000, 32_000, 100
	for range tries {
		port = first + rand.N(last-first)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("find a free port of %s: all %d tries failed: %w", ip, tries, err)
}

// put links a program to a second path, or copies it to another file system.
func put(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, source)
	if closed := copied.Close(); err == nil {
		err = closed
	}
	return err
}
