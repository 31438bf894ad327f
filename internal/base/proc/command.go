// Package proc represents a command as data. It prints the command for pasting into a
// shell, runs it and stops it. tare starts every process here, so that none outlives it.
package proc

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// String prints the command as one line that can be pasted into a POSIX shell:
// quoted, with its directory, its environment and its processors. Descriptors in
// Files have no spelling in a shell. They are named in a comment at the end.
func (c Command) String() string {
	var words []string
	for _, kv := range c.Env {
		k, v, _ := strings.Cut(kv, "=")
		words = append(words, k+"="+quote(v))
	}
	if c.CPUs != "" {
		words = append(words, "taskset", "-c", quote(c.CPUs))
	}
	words = append(words, quote(c.Path))
	for _, a := range c.Args {
		words = append(words, quote(a))
	}
	line := strings.Join(words, " ")
	if c.Dir != "" {
		line = "cd " + quote(c.Dir) + " && " + line
	}
	if len(c.Files) > 0 {
		line += " # with"
		for i, f := range c.Files {
			line += fmt.Sprintf(" descriptor %d: %s", i+3, strings.ReplaceAll(f.Name(), "\n", " "))
		}
	}
	return line
}

func (c Command) name() string { return filepath.Base(c.Path) }

// quote leaves a word alone when no shell would change it.
func quote(s string) string {
	const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%"
	if s != "" && strings.Trim(s, safe) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// maxCPU is the max processor number in the kernel's CPU sets.
const maxCPU = 1023

// ParseCPUs reads a processor list as taskset writes it: numbers and ranges
// with an optional stride, "0-3,6" or "0-8:2".
func ParseCPUs(list string) ([]int, error) {
	seen := map[int]bool{}
	var cpus []int
	for _, part := range strings.Split(list, ",") {
		first, last, stride, err := parseRange(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("processor list %.40q: %w", list, err)
		}
		for n := first; n <= last; n += stride {
			if !seen[n] {
				seen[n] = true
				cpus = append(cpus, n)
			}
		}
	}
	return cpus, nil
}

func parseRange(s string) (first, last, stride int, err error) {
	span, step, strided := strings.Cut(s, ":")
	from, to, ranged := strings.Cut(span, "-")
	if first, err = parseCPU(from); err != nil {
		return 0, 0, 0, err
	}
	last, stride = first, 1
	if ranged {
		if last, err = parseCPU(to); err != nil {
			return 0, 0, 0, err
		}
	}
	if strided {
		if stride, err = parseCPU(step); err != nil {
			return 0, 0, 0, err
		}
	}
	if last < first || stride < 1 {
		return 0, 0, 0, fmt.Errorf("range %q runs backwards", s)
	}
	return first, last, stride, nil
}

func parseCPU(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > maxCPU {
		return 0, fmt.Errorf("%q is not a processor number from 0 to %d", s, maxCPU)
	}
	return int(n), nil
}

// Command is a process to be started. Nothing in it goes through a shell.
type Command struct {
	Path  string     // absolute, or looked up on PATH
	Args  []string   // without the program's name
	Env   []string   // added to the environment tare itself has, "K=V"
	Dir   string     // working directory, empty for tare's own
	Files []*os.File // inherited as descriptors 3, 4, …
	CPUs  string     // processors it may run on, as taskset writes them, empty for any
	// At is the start time, by the clock of the host that runs it. Zero means now.
	// Only load workers in pods wait for it.
	At time.Time
	// Stdin is read to its end. Nil is empty.
	Stdin io.Reader
	// Log receives stdout and stderr (path, created 0600, appended to), but stdout only if Stdout is nil.
	Log string
	// MaxLog is about the max size of Log: a longer one loses its middle. 0: no limit.
	MaxLog int64
	// Tree ends the descendants of the process with it, in other sessions too. They inherit a
	// mark. It is for programs of users.
	Tree bool
	// Stdout, where set, receives standard output instead of Log.
	Stdout io.Writer
}
