//go:build linux

package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// leftover starts a process outside of Start: only the sweep kills it.
func leftover(t *testing.T) (pid int, exited <-chan struct{}) {
	t.Helper()
	c := child("sleep")
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = append(os.Environ(), c.Env...)
	must.OK(t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
	return cmd.Process.Pid, done
}

// place is the directory dir as a place of state files.
func place(dir string) statePlace {
	return statePlace{base: filepath.Dir(dir), names: []string{filepath.Base(dir)}, user: os.Getuid()}
}

// ownDir makes a directory as Sweep accepts it.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	must.OK(t, os.Mkdir(dir, 0o700))
	return dir
}

func writeState(t *testing.T, dir string, entries ...entry) string {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(dir, "1-1"+suffix)))(t)
	defer f.Close()
	for _, e := range entries {
		must.OK(t, appendEntry(f, e))
	}
	return f.Name()
}

func TestSweep(t *testing.T) {
	self := must.Get(identify(os.Getpid()))(t)
	deadTare := self
	deadTare.Start++ // its number is in use again, by another process
	otherBoot := deadTare
	otherBoot.Boot = "00000000-0000-0000-0000-000000000000"

	for _, tc := range []struct {
		name   string
		tare   identity
		change func(*identity)
		killed bool
		kept   bool // the state file
	}{
		{name: "kills a leftover", tare: deadTare, killed: true},
		{name: "spares a reused pid", tare: deadTare, change: func(id *identity) { id.Start-- }},
		{name: "spares after a reboot", tare: otherBoot, change: func(id *identity) { id.Boot = otherBoot.Boot }},
		{name: "spares a living run", tare: self, kept: true},
		{name: "spares init", tare: deadTare, change: func(id *identity) { id.PID = 1 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := ownDir(t)
			pid, exited := leftover(t)
			id := must.Get(identify(pid))(t)
			if tc.change != nil {
				tc.change(&id)
			}
			path := writeState(t, dir, entry{identity: tc.tare, Command: "tare"}, entry{identity: id, Command: "sleeper"})
			swept := must.Get(sweep([]statePlace{place(filepath.Join(dir, "absent")), place(dir)}))(t)
			if got := len(swept) == 1; got != tc.killed {
				t.Fatalf("swept %v", swept)
			}
			if tc.killed {
				<-exited
			} else if !alive(pid) {
				t.Error("the process was killed")
			}
			if _, err := os.Stat(path); (err == nil) != tc.kept {
				t.Errorf("state file: %v", err)
			}
		})
	}
}

// A file cut off in the middle of a line, or not of tare's making, harms nothing.
func TestSweepBrokenFile(t *testing.T) {
	dir := ownDir(t)
	for name, text := range map[string]string{"a": "", "b": "{", "c": "{\"pid\":1}\n{\"pid\":-5}\n{", "d": "null\nnull\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name+suffix), []byte(text), 0o600))
	}
	if swept, err := sweep([]statePlace{place(dir)}); err != nil || len(swept) != 0 {
		t.Errorf("%v, %v", swept, err)
	}
}

// Start writes what Sweep reads; a living run is left alone.
func TestStartIsRecorded(t *testing.T) {
	p := start(t, child("sleep"))
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "tare", "processes", "*"+suffix))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if swept, err := Sweep(); err != nil || len(swept) != 0 {
		t.Errorf("swept %v, %v", swept, err)
	}
	if !alive(p.PID) {
		t.Error("a process of this run was killed")
	}
}

// State goes to the next place if the first cannot be used.
func TestStateFallsBack(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(blocked, nil, 0o600))
	bad := place(filepath.Join(blocked, "x"))
	good := place(filepath.Join(t.TempDir(), "state"))
	f := must.Get(createState([]statePlace{bad, good}))(t)
	f.Close()
	if got := filepath.Dir(f.Name()); got != filepath.Join(good.base, good.names[0]) {
		t.Errorf("state file is in %s", got)
	}
	if _, err := createState([]statePlace{bad}); err == nil {
		t.Error("no error where nothing can be written")
	}
}
