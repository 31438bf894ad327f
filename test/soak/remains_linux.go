package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
)

// world is the part of the system that belongs to a strand.
type world struct {
	strand                string
	work                  string // directory of the strand
	home, tmp, state, out string
	addresses             []string // of its network namespace, at the start
	namespaces            int      // named network namespaces, at the start
}

// settling is the time that killed processes and their sockets are given to end ([allowance]). A killed process ends
// when it has a CPU: with nice 19 on a busy machine that took over a minute.
const settling = time.Minute

// remains lists what a run left behind. After a SIGKILL to tare its files stay until its next start.
func (w *world) remains(files bool) (left []string) {
	p := newAllowance(settling, w.strand)
	for {
		left = w.alive()
		if time.Since(p.at) > pace {
			p.look(time.Now(), threadsOf(w.strand), thisMachine())
		}
		if len(left) == 0 || p.over() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if files {
		left = append(left, w.files()...)
	}
	return left
}

// alive are processes, sockets, addresses, nftables tables and network namespaces.
func (w *world) alive() (left []string) {
	for _, p := range processesOf(w.strand) {
		left = append(left, fmt.Sprintf("process %s %s", p, state(p.pid)))
	}
	left = append(left, sockets()...)
	if now := addresses(); !slices.Equal(now, w.addresses) {
		left = append(left, fmt.Sprintf("addresses: %v at the start, %v now", w.addresses, now))
	}
	if now := namedNamespaces(); now != w.namespaces {
		left = append(left, fmt.Sprintf("network namespaces: %d at the start, %d now", w.namespaces, now))
	}
	conn, err := nftables.New()
	if err != nil {
		return append(left, "nftables: "+err.Error())
	}
	tables, err := conn.ListTables()
	if err != nil {
		return append(left, "nftables: "+err.Error())
	}
	for _, t := range tables {
		left = append(left, "nftables table "+t.Name)
	}
	return left
}

// state has the parent, the run state and the pending signals of a process.
func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	var kept []string
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); slices.Contains([]string{"State", "PPid", "SigPnd", "ShdPnd"}, name) {
			kept = append(kept, name+" "+strings.TrimSpace(value))
		}
	}
	return strings.Join(kept, ", ")
}

// sockets of the strand's network namespace. Closing TCP connections are the kernel's.
func sockets() (left []string) {
	const listening, established = "0A", "01"
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		for fields := range rows("/proc/self/net/" + table) {
			if len(fields) > 3 && (strings.HasPrefix(table, "udp") || fields[3] == listening || fields[3] == established) {
				left = append(left, fmt.Sprintf("%s socket %s to %s, state %s", table, fields[1], fields[2], fields[3]))
			}
		}
	}
	for fields := range rows("/proc/self/net/unix") {
		if len(fields) > 7 {
			left = append(left, "unix socket "+fields[7])
		}
	}
	return left
}

// rows are the fields of a table of the kernel without its header.
func rows(path string) func(func([]string) bool) {
	return func(yield func([]string) bool) {
		f, err := os.Open(path)
		if err != nil {
			return // a kernel without IPv6
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 0; lines.Scan(); n++ {
			if n > 0 && !yield(strings.Fields(lines.Text())) {
				return
			}
		}
	}
}

func addresses() (all []string) {
	found, _ := net.InterfaceAddrs()
	for _, a := range found {
		all = append(all, a.String())
	}
	slices.Sort(all)
	return all
}

func namedNamespaces() int {
	entries, _ := os.ReadDir("/run/netns")
	return len(entries)
}

// files below HOME and TMPDIR. The state file of the last run stays until the next one.
func (w *world) files() (left []string) {
	states := 0
	for _, dir := range []string{w.tmp, w.home, w.state} {
		_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				left = append(left, err.Error())
			case filepath.Dir(path) == filepath.Join(w.state, "tare", "processes"):
				states++
			case !d.IsDir() || strings.HasPrefix(d.Name(), "tare-run-"):
				left = append(left, "file "+path)
			}
			return nil
		})
	}
	if states > 1 {
		left = append(left, fmt.Sprintf("%d state files", states))
	}
	return left
}
