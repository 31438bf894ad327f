package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
)

// identity distinguishes a process from a later one with the same PID.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // the kernel's boot ID
}

// entry is one line of a state file. The first line is tare's own process.
type entry struct {
	identity
	Command string `json:"command"`
	Mark    string `json:"mark,omitempty"` // of its descendants
}

// suffix ends the name of a state file: JSON lines, one file per run of tare.
const suffix = ".jsonl"

// state holds the state file of this run. It is created when the first process starts.
var state struct {
	sync.Mutex
	file *os.File
}

// Note records a process that a started one has started, so that [Sweep] finds it.
func Note(pid int, command string) error { return register(pid, command, "") }

func register(pid int, command, mark string) error {
	id, err := identify(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // Sweep returns the same error
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil // the process has ended
	}
	if err != nil {
		return fmt.Errorf("identify process %d: %w", pid, err)
	}
	state.Lock()
	defer state.Unlock()
	if state.file == nil {
		if state.file, err = createState(statePlaces()); err != nil {
			return err
		}
	}
	return appendEntry(state.file, entry{id, command, mark})
}

// createState makes the state file of this run in the first place that can be used.
func createState(places []statePlace) (*os.File, error) {
	self, err := identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("identify tare's own process: %w", err)
	}
	var failed []error
	for _, p := range places {
		f, err := createStateIn(p, self)
		if err == nil {
			return f, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("record started processes: %w", errors.Join(failed...))
}

func createStateIn(p statePlace, self identity) (*os.File, error) {
	dir, err := p.create()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.openFile(fmt.Sprintf("%d-%d%s", self.PID, self.Start, suffix), os.O_APPEND|os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	if err := appendEntry(f, entry{identity: self, Command: "tare"}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func appendEntry(f *os.File, e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("record process %d: %w", e.PID, err)
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("record process %d: %w", e.PID, err)
	}
	return nil
}

// Sweep kills the processes that dead runs of tare left behind, removes the state files of those runs, and returns the IDs.
// A process is killed only if its start time and the boot ID are the recorded ones, so that a reused PID is
// spared. The error names the places and files that were refused. The others are swept. It wraps
// [errors.ErrUnsupported] on systems without a start time of processes.
func Sweep() ([]int, error) { return sweep(statePlaces()) }

func sweep(places []statePlace) ([]int, error) {
	if _, err := identify(os.Getpid()); err != nil {
		return nil, fmt.Errorf("sweep processes of earlier runs: %w", err)
	}
	var killed []int
	var failed []error
	for _, p := range places {
		k, err := sweepPlace(p)
		killed = append(killed, k...)
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return killed, fmt.Errorf("sweep processes of earlier runs: %w", errors.Join(failed...))
	}
	return killed, nil
}

func sweepPlace(p statePlace) ([]int, error) {
	dir, err := p.open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnusable) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	failed := []error{err}
	var killed []int
	for _, name := range names {
		if strings.HasSuffix(name, suffix) {
			k, err := sweepFile(dir, name)
			killed = append(killed, k...)
			failed = append(failed, err)
		}
	}
	return killed, errors.Join(failed...)
}

// maxStateFile bounds the bytes read of one state file. An entry has about 300.
const maxStateFile = 16 << 20

func sweepFile(dir stateDir, name string) ([]int, error) {
	b, err := readStateFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // another tare has removed it
	}
	if err != nil {
		return nil, err
	}
	tare, started, ok := readState(b)
	if !ok {
		return nil, nil // its run is creating it now, or died before it started a process
	}
	if alive, err := runs(tare.identity); alive || err != nil {
		return nil, err
	}
	var killed []int
	var marks []string
	for _, e := range started {
		marks = append(marks, e.Mark)
		alive, err := runs(e.identity)
		if err != nil {
			return killed, err
		}
		if !alive {
			continue
		}
		if err := syscall.Kill(-e.PID, syscall.SIGKILL); err != nil {
			if err := syscall.Kill(e.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return killed, fmt.Errorf("kill process %d: %w", e.PID, err)
			}
		}
		killed = append(killed, e.PID)
	}
	if err := killMarked(marks...); err != nil { // one scan of /proc for all of them
		return killed, err
	}
	return killed, dir.remove(name)
}

// readStateFile closes the file before its processes are identified: descriptors may be few.
func readStateFile(dir stateDir, name string) ([]byte, error) {
	f, err := dir.openFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxStateFile))
}

// readState reads a state file: the entry of tare, and the entries of the processes that
// it started. A last line may be torn. No started process has a PID up to 1: a
// negative one would name a group, and 1 is init.
func readState(b []byte) (tare entry, started []entry, ok bool) {
	for i, line := range strings.Split(string(b), "\n") {
		var e entry
		err := json.Unmarshal([]byte(line), &e)
		switch {
		case err == nil && i == 0:
			tare = e
		case i == 0:
			return entry{}, nil, false
		case err == nil && e.PID > 1:
			started = append(started, e)
		}
	}
	return tare, started, true
}

// runs reports whether exactly this process is alive. An error, such as too few descriptors, leaves that open.
func runs(id identity) (bool, error) {
	if id.PID <= 1 {
		return false, nil
	}
	now, err := identify(id.PID)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil && now == id, err
}
