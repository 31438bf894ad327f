//go:build linux

package proc

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
)

// otherUser is the user ID of the attacker in these tests.
const otherUser = 65534

// prey is a file that a sweep without checks would remove: its run is dead.
func prey(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "prey"+suffix)
	must.OK(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	return path
}

func mkdir(t *testing.T, mode os.FileMode, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	must.OK(t, os.Mkdir(dir, mode))
	if err := os.Chmod(dir, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return dir
}

func symlink(t *testing.T, target string, elem ...string) {
	t.Helper()
	must.OK(t, os.Symlink(target, filepath.Join(elem...)))
}

// chown gives paths to the other user. It needs root.
func chown(t *testing.T, paths ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("giving a file to another user takes root")
	}
	for _, path := range paths {
		must.OK(t, os.Lchown(path, otherUser, otherUser))
	}
}

// Another user plants the directory of state files in the shared directory for temporary files.
func TestPlantedDirectory(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, tmp, victim string){
		"another user's directory with a link": func(t *testing.T, tmp, victim string) {
			dir := mkdir(t, 0o777, tmp, "tare-0")
			symlink(t, victim, dir, "processes")
			chown(t, filepath.Join(dir, "processes"), dir)
		},
		"another user's directory, mode 0700": func(t *testing.T, tmp, victim string) {
			dir := mkdir(t, 0o700, tmp, "tare-0")
			symlink(t, victim, dir, "processes")
			chown(t, dir)
		},
		"a link to the user's own directory": func(t *testing.T, tmp, victim string) {
			symlink(t, filepath.Dir(victim), tmp, "tare-0")
		},
		"a link in the user's own directory": func(t *testing.T, tmp, victim string) {
			symlink(t, victim, mkdir(t, 0o700, tmp, "tare-0"), "processes")
		},
		"the user's own directory, open to others": func(t *testing.T, tmp, victim string) {
			dir := mkdir(t, 0o755, tmp, "tare-0")
			must.OK(t, os.Rename(victim, filepath.Join(dir, "processes")))
			symlink(t, filepath.Join(dir, "processes"), victim)
		},
		"a file": func(t *testing.T, tmp, _ string) {
			must.OK(t, os.WriteFile(filepath.Join(tmp, "tare-0"), nil, 0o600))
		},
		"a FIFO": func(t *testing.T, tmp, _ string) {
			must.OK(t, syscall.Mkfifo(filepath.Join(tmp, "tare-0"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := mkdir(t, 0o777|os.ModeSticky, t.TempDir(), "tmp")
			victim := mkdir(t, 0o700, mkdir(t, 0o700, t.TempDir(), "victim"), "processes")
			file := prey(t, victim)
			plant(t, tmp, victim)
			planted := statePlace{base: tmp, names: []string{"tare-0", "processes"}, user: os.Getuid()}

			_, err := sweep([]statePlace{planted})
			if err == nil || !strings.Contains(err.Error(), filepath.Join(tmp, "tare-0")) || hint.Of(err) == "" {
				t.Errorf("error %v, hint %q", err, hint.Of(err))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("the sweep removed a file of the user: %v", err)
			}
			if f, err := createState([]statePlace{planted}); err == nil {
				t.Errorf("state file created as %s", f.Name())
				f.Close()
			}

			// The run's state goes elsewhere, and the sweep still reaches that place.
			dir := ownDir(t)
			dead := prey(t, dir)
			f := must.Get(createState([]statePlace{planted, place(dir)}))(t)
			f.Close()
			if _, err := sweep([]statePlace{planted, place(dir)}); err == nil {
				t.Error("the planted directory is not reported")
			}
			if _, err := os.Stat(dead); err == nil {
				t.Error("the state of a dead run is left in the good place")
			}
		})
	}
}

// A file in the user's own directory is swept only if it is a regular file of the user.
func TestPlantedFile(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, victim string){
		"a link":              func(t *testing.T, dir, victim string) { symlink(t, victim, dir, "1-1"+suffix) },
		"another user's file": func(t *testing.T, dir, _ string) { chown(t, prey(t, dir)) },
		"a FIFO": func(t *testing.T, dir, _ string) {
			must.OK(t, syscall.Mkfifo(filepath.Join(dir, "1-1"+suffix), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, victim := ownDir(t), prey(t, t.TempDir())
			plant(t, dir, victim)
			before, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(before) != 1 {
				t.Fatal(before, err)
			}
			must.Fail(t, must.Err(sweep([]statePlace{place(dir)})), before[0])
			for _, path := range []string{before[0], victim} {
				if _, err := os.Lstat(path); err != nil {
					t.Errorf("removed: %v", err)
				}
			}
		})
	}
}

// A home directory of another user, as after sudo, is not an error: state goes to the next place.
func TestForeignHome(t *testing.T) {
	home := t.TempDir()
	chown(t, home)
	p := statePlace{base: filepath.Join(home, ".local", "state"), home: home, names: []string{"tare", "processes"}, user: os.Getuid()}
	if _, err := sweep([]statePlace{p}); err != nil {
		t.Error(err)
	}
	if _, err := p.create(); !errors.Is(err, errUnusable) {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("created in a foreign home: %v, %v", left, err)
	}
}

// TestUnreadableHome runs as a user who cannot enter the home directory that HOME names.
func TestUnreadableHome(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("changing the user takes root")
	}
	dir := mkdir(t, 0o755, os.TempDir(), "tare-home-test")
	t.Cleanup(func() { os.RemoveAll(dir) })
	home := mkdir(t, 0o700, dir, "home")
	tmp := mkdir(t, 0o777|os.ModeSticky, dir, "tmp")
	program := filepath.Join(dir, "test")
	if err := os.Link(os.Args[0], program); err != nil {
		b, err := os.ReadFile(os.Args[0])
		if err == nil {
			err = os.WriteFile(program, b, 0o755)
		}
		must.OK(t, err)
	}
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Dir = dir
	cmd.Env = []string{roleVariable + "=state", "HOME=" + home, "TMPDIR=" + tmp, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, err := cmd.CombinedOutput()
	if want := filepath.Join(tmp, "tare-65534", "processes") + "\n"; err != nil || string(out) != want {
		t.Errorf("printed %q, want %q: %v", out, want, err)
	}
}

// freeVariable has the number of free descriptors of the role "few".
const freeVariable = "TARE_PROC_TEST_FREE"

// With few descriptors a sweep removes the state of dead runs if it can. It never takes a living run for a dead one.
func TestSweepWithFewDescriptors(t *testing.T) {
	self := must.Get(identify(os.Getpid()))(t)
	state := t.TempDir()
	dir := mkdir(t, 0o700, mkdir(t, 0o700, state, "tare"), "processes")
	pid, _ := leftover(t)
	id := must.Get(identify(pid))(t)
	living := writeState(t, dir, entry{identity: self, Command: "tare"}, entry{identity: id, Command: "sleeper"})
	dead := filepath.Join(dir, "2-2"+suffix)
	for free := range 8 {
		must.OK(t, os.WriteFile(dead, []byte(`{"pid":2147483647,"start":1,"boot":"`+self.Boot+`"}`+"\n"), 0o600))
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = []string{roleVariable + "=few", freeVariable + "=" + strconv.Itoa(free), "XDG_STATE_HOME=" + state, "TMPDIR=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%d descriptors: %v\n%s", free, err, out)
		}
		if _, err := os.Stat(living); err != nil || !alive(pid) {
			t.Fatalf("%d descriptors: the living run: %v\n%s", free, err, out)
		}
		_, err = os.Stat(dead)
		if removed := errors.Is(err, fs.ErrNotExist); removed != (free >= 2) || removed != (len(out) == 0) {
			t.Errorf("%d descriptors: removed %v, printed %q", free, removed, out)
		}
	}
}

// sweepWithFew sweeps with few free descriptors.
func sweepWithFew() {
	free, err := strconv.Atoi(os.Getenv(freeVariable))
	if err != nil {
		panic(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		panic(err)
	}
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	for _, f := range taken[:free] {
		f.Close()
	}
	if _, err := Sweep(); err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
	}
	runtime.KeepAlive(taken)
}

// The roles need Linux, as this file does.
func init() { roles["state"], roles["few"] = printState, sweepWithFew }

// printState sweeps, creates a state file and prints the directory of the file.
func printState() {
	if _, err := Sweep(); err != nil {
		os.Stdout.WriteString("sweep: " + err.Error() + "\n")
	}
	f, err := createState(statePlaces())
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString(filepath.Dir(f.Name()) + "\n")
}
