package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// marker is the environment variable of all processes of a strand.
const marker = "TARE_SOAK"

// process is a living process of a strand.
type process struct {
	pid     int
	command []string
}

func (p process) String() string {
	return fmt.Sprintf("%d %.200s", p.pid, strings.Join(p.command, " "))
}

// check reports whether a process only prints its version: tare does not start without it.
func (p process) check() bool { return slices.Contains(p.command, "--version") }

// is reports whether a process is one of a victim's.
func (p process) is(v Victim) bool {
	name, verb := filepath.Base(p.command[0]), ""
	if len(p.command) > 1 {
		verb = p.command[1]
	}
	switch v {
	case Proxy:
		return name == "envoy" || name == "tare-agent" && verb == "proxy"
	case Service:
		return name == "tare-agent" && verb == "serve"
	case Load:
		return name == "tare-agent" && verb == "load"
	}
	return false
}

// processesOf lists the living processes whose environment has the strand's marker.
func processesOf(strand string) (all []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	want := []byte(marker + "=" + strand)
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil {
			continue // it has ended
		}
		for variable := range bytes.SplitSeq(env, []byte{0}) {
			if !bytes.Equal(variable, want) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(dir))
			command, err2 := os.ReadFile(filepath.Join(dir, "cmdline"))
			if err == nil && err2 == nil && len(command) > 0 && pid != os.Getpid() {
				all = append(all, process{pid, strings.Split(strings.TrimRight(string(command), "\x00"), "\x00")})
			}
			break
		}
	}
	return all
}

// strike sends a signal to a random process of a victim, and returns it. Nil means that there is none now.
func strike(strand string, k Kill, tare int) *process {
	if k.Victim == Tare {
		if syscall.Kill(tare, k.Signal) != nil {
			return nil
		}
		return &process{tare, []string{"tare"}}
	}
	var found []process
	for _, p := range processesOf(strand) {
		if p.is(k.Victim) {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil
	}
	p := found[rand.IntN(len(found))]
	if syscall.Kill(p.pid, k.Signal) != nil {
		return nil
	}
	return &p
}

// usage is the memory, descriptors and threads of a process.
type usage struct {
	RSS, Peak            float64 // MiB
	Descriptors, Threads float64
}

func usageOf(pid int) (u usage, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		n, _ := strconv.ParseFloat(fields[0], 64)
		switch name {
		case "VmRSS":
			u.RSS = n / 1024
		case "VmHWM":
			u.Peak = n / 1024
		case "Threads":
			u.Threads = n
		}
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	u.Descriptors = float64(len(entries))
	return u, err == nil && u.RSS > 0
}
