package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// identity tells a process from a later one with the same number.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // the kernel's boot ID
}

// entry is one line of a state file. The first line is tare itself.
type entry struct {
	identity
	Command string `json:"command"`
}

// suffix of state files, one a run of tare, JSON lines.
const suffix = ".jsonl"

// StateDirs lists where state files may lie, preferred first: the user's state
// directory, then the directory for temporary files.
func StateDirs() []string {
	var dirs []string
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		dirs = append(dirs, filepath.Join(d, "tare", "processes"))
	} else if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		dirs = append(dirs, filepath.Join(home, ".local", "state", "tare", "processes"))
	}
	return append(dirs, filepath.Join(os.TempDir(), fmt.Sprintf("tare-%d", os.Getuid()), "processes"))
}

// state is the state file of this run, made when the first process is started.
var state struct {
	sync.Mutex
	file *os.File
}

func register(pid int, c Command) error {
	id, err := identify(pid)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // nothing could be swept here; Sweep says so
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil // it has ended already
	}
	if err != nil {
		return fmt.Errorf("identify process %d: %w", pid, err)
	}
	state.Lock()
	defer state.Unlock()
	if state.file == nil {
		if state.file, err = createState(StateDirs()); err != nil {
			return err
		}
	}
	return appendEntry(state.file, entry{id, c.String()})
}

func createState(dirs []string) (*os.File, error) {
	self, err := identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("identify tare's own process: %w", err)
	}
	var failed []error
	for _, dir := range dirs {
		f, err := createStateIn(dir, self)
		if err == nil {
			return f, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("record started processes: %w", errors.Join(failed...))
}

func createStateIn(dir string, self identity) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := owned(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fmt.Sprintf("%d-%d%s", self.PID, self.Start, suffix))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := appendEntry(f, entry{self, "tare"}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// owned refuses a path that another user made: it would say which processes to kill.
func owned(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d", path, st.Uid)
	}
	return nil
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

// Swept is a process that an earlier, dead run of tare had left behind and that was killed.
type Swept struct {
	PID     int
	Command string
}

// Sweep kills what runs of tare that are dead have left behind, and forgets
// those runs. A process is killed only when its start time and the machine's
// boot are those recorded: a number that was reused is spared. Where processes
// cannot be told apart that way the error wraps [errors.ErrUnsupported].
func Sweep() ([]Swept, error) { return sweep(StateDirs()) }

func sweep(dirs []string) ([]Swept, error) {
	if _, err := identify(os.Getpid()); err != nil {
		return nil, fmt.Errorf("sweep processes of earlier runs: %w", err)
	}
	var killed []Swept
	var failed []error
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				failed = append(failed, err)
			}
			continue
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), suffix) {
				continue
			}
			k, err := sweepFile(filepath.Join(dir, f.Name()))
			killed = append(killed, k...)
			if err != nil {
				failed = append(failed, err)
			}
		}
	}
	if len(failed) > 0 {
		return killed, fmt.Errorf("sweep processes of earlier runs: %w", errors.Join(failed...))
	}
	return killed, nil
}

func sweepFile(path string) ([]Swept, error) {
	if err := owned(path); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // another tare has swept it
	}
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(b), "\n")
	var tare entry
	if err := json.Unmarshal([]byte(lines[0]), &tare); err != nil {
		// Cut off while being made: nothing had been started yet, unless it is being made now.
		return nil, nil
	}
	if runs(tare.identity) {
		return nil, nil
	}
	var killed []Swept
	for _, line := range lines[1:] {
		var e entry
		if json.Unmarshal([]byte(line), &e) != nil || !runs(e.identity) {
			continue
		}
		if err := syscall.Kill(-e.PID, syscall.SIGKILL); err != nil {
			if err := syscall.Kill(e.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return killed, fmt.Errorf("kill process %d: %w", e.PID, err)
			}
		}
		killed = append(killed, Swept{e.PID, e.Command})
	}
	return killed, os.Remove(path)
}

// runs says whether exactly this process is still alive.
func runs(id identity) bool {
	if id.PID <= 1 {
		return false
	}
	now, err := identify(id.PID)
	return err == nil && now == id
}
