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
	Given       float64  `json:"given"`        // part of the time in which no thread of the run waited for a processor
	LoadAverage float64  `json:"loadAverage"`  // over a minute
	Available   float64  `json:"availableMiB"` // memory
}

// lastLines is the number of lines of stderr that an [End] keeps, each of maxLine bytes.
const (
	lastLines = 20
	maxLine   = 500
)

// expects lists the exit codes that the disturbance of an attempt explains. -1 means that a signal ended tare.
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

// leastGiven is the part of its time that a run must be given, for its own time limits to be judged.
const leastGiven = 0.5

// timeLimits are texts of tare's time limits, in wall time.
var timeLimits = []string{"does not end", "no end within", "did not end in time", "it took longer than", "deadline exceeded"}

// short reports whether a time limit of tare's own ended the attempt, most of which one of its threads waited for a
// processor.
func (r *running) short(code int, stderr string) bool {
	return code == 1 && r.given != nil && r.given.share() < leastGiven &&
		slices.ContainsFunc(timeLimits, func(text string) bool { return strings.Contains(stderr, text) })
}

// end keeps an exit that its disturbance does not explain. Without a disturbance it is a violation, unless the machine
// gave the run too little CPU.
func (r *running) end(number int, a Attempt, code int, state, stderr string, took time.Duration) {
	if r.late = r.short(code, stderr); r.late {
		r.outcome.Starved++
	}
	if r.stopped != nil {
		return // by the soak, which has counted it
	}
	if slices.Contains(a.expects(), code) || r.interrupted && code == 130 || code == 1 && r.checked(stderr) || a.refused(code, stderr) {
		return
	}
	e := End{Strand: r.number, Case: r.of.Number, Attempt: number, Disturbance: a.name(), State: state, Seconds: took.Seconds(),
		Last: last(stderr), LoadAverage: firstNumber("/proc/loadavg", ""), Available: firstNumber("/proc/meminfo", "MemAvailable:") / 1024}
	if r.given != nil {
		e.Given = r.given.share()
	}
	for _, line := range e.Last {
		if strings.HasPrefix(line, "tare: ") {
			e.Reason = line
		}
	}
	r.outcome.Ends = append(r.outcome.Ends, e)
	if a.name() == "undisturbed" && !r.late {
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

// firstNumber reads the first number after a name in a file of the kernel, or 0 if there is none.
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
