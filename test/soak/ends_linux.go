package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// End is an exit of tare that its disturbance does not explain.
type End struct {
	Strand      int      `json:"strand"`
	Case        int      `json:"case"`
	Attempt     int      `json:"attempt"`
	Disturbance string   `json:"disturbance"`
	State       string   `json:"state"`  // exit code or signal
	Reason      string   `json:"reason"` // the last line of tare's own
	Last        []string `json:"last"`   // last lines of stderr
	Seconds     float64  `json:"seconds"`
	LoadAverage float64  `json:"loadAverage"`  // over a minute
	Available   float64  `json:"availableMiB"` // memory
}

// lastLines is the number of lines of stderr that an [End] keeps, each of maxLine bytes.
const (
	lastLines = 20
	maxLine   = 500
)

// expects lists the exit codes that the disturbance of an attempt explains; -1: a signal ended tare.
func (a Attempt) expects() []int {
	switch {
	case a.Limit.Of != "":
		return []int{0, 1, 3}
	case len(a.Kills) == 0 || a.Kills[0].Victim != Tare:
		return []int{0, 3}
	case a.Kills[0].Signal == syscall.SIGKILL:
		return []int{0, 3, -1}
	}
	return []int{0, 3, 130}
}

// checked reports whether tare ended because a signal of the soak killed a version check, and named that signal.
func (r *running) checked(stderr string) bool {
	return r.check != "" && strings.Contains(stderr, "--version: killed by "+r.check)
}

// refused reports whether tare refused the experiment because of the limit of descriptors, before anything began.
func (a Attempt) refused(code int, stderr string) bool {
	return code == 2 && a.Limit.Of == Descriptors && strings.Contains(stderr, "files that a process may open")
}

// end keeps an exit that its disturbance does not explain. Without a disturbance it is a violation.
func (r *running) end(number int, a Attempt, code int, state, stderr string, took time.Duration) {
	if slices.Contains(a.expects(), code) || r.interrupted && code == 130 || code == 1 && r.checked(stderr) || a.refused(code, stderr) {
		return
	}
	e := End{Strand: r.number, Case: r.of.Number, Attempt: number, Disturbance: a.name(), State: state, Seconds: took.Seconds(),
		Last: last(stderr), LoadAverage: firstNumber("/proc/loadavg", ""), Available: firstNumber("/proc/meminfo", "MemAvailable:") / 1024}
	for _, line := range e.Last {
		if strings.HasPrefix(line, "tare: ") {
			e.Reason = line
		}
	}
	r.outcome.Ends = append(r.outcome.Ends, e)
	if a.name() == "undisturbed" {
		r.outcome.violate(number, "unexpected end", fmt.Sprintf("%s, load average %.0f, %.0f MiB available\n%s", state, e.LoadAverage, e.Available, strings.Join(e.Last, "\n")))
	}
	whole := filepath.Join(r.world.work, "ends")
	_ = os.MkdirAll(whole, 0o700)
	_ = os.WriteFile(filepath.Join(whole, fmt.Sprintf("%s.attempt-%d.stderr", filepath.Base(r.dir), number)), []byte(stderr), 0o600)
}

// last are the last lines of a text.
func last(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		lines = append(lines, line[:min(len(line), maxLine)])
	}
	return lines[max(0, len(lines)-lastLines):]
}

// firstNumber reads the first number after a name in a file of the kernel; 0: there is none.
func firstNumber(path, name string) float64 {
	b, _ := os.ReadFile(path)
	_, after, _ := strings.Cut(string(b), name)
	for _, field := range strings.Fields(after) {
		if n, err := strconv.ParseFloat(field, 64); err == nil {
			return n
		}
	}
	return 0
}
