package result_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/test/must"
)

const fullEnv = "TARE_TEST_FULL_DISK"

// The test fills a file system of 512 KiB. It is mounted in its own mount
// namespace, so nothing remains after the test.
func TestDiskFull(t *testing.T) {
	if os.Getenv(fullEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
		cmd.Env = append(os.Environ(), fullEnv+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, syscall.EPERM) && os.Getuid() != 0 {
			t.Skip("this user may not make a mount namespace, and so no small file system")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	mount := os.Getenv(fullEnv)
	must.OK(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must.OK(t, syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=512k"))
	diskFull(t, filepath.Join(mount, "run"))
}

func diskFull(t *testing.T, dir string) {
	d, err := result.Create(dir, []byte(experimentText), smallPlan(), result.Environment{})
	must.OK(t, err)
	trials := d.Plan().Trials
	finish(t, d, trials[0])

	filler := filepath.Join(filepath.Dir(dir), "filler")
	must.OK(t, os.WriteFile(filler, make([]byte, 300<<10), 0o600))
	td := must.Get(d.Trial(trials[1]))(t)
	e := result.Event{Kind: result.KindLog, Message: strings.Repeat("x", 4000)}
	for range 200 {
		if err = td.Event(e); err != nil {
			break
		}
	}
	wantFull(t, err, dir)
	wantFull(t, td.Finish(recordOf(trials[1])), dir)

	// The record itself does not fit.
	_ = os.WriteFile(filler, make([]byte, 1<<20), 0o600) // fills the rest
	td = must.Get(d.Trial(trials[2]))(t)
	wantFull(t, td.Finish(recordOf(trials[2])), dir)
	if _, err := os.Stat(td.Path(result.RecordFile + ".tmp")); err == nil {
		t.Error("half a record is left")
	}
	other := filepath.Join(filepath.Dir(dir), "other")
	_, err = result.Create(other, []byte(experimentText), smallPlan(), result.Environment{})
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(hint.Of(err), "--resume") {
		t.Errorf("a directory on a full disk: %v, hint %q", err, hint.Of(err))
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("a directory without a run is left on the full disk")
	}
	wantFull(t, d.Close(), dir) // the directory's manifest does not fit; the lock is released
	// Only finished records can be read.
	r := must.Get(result.Open(dir))(t)
	records, err := r.Records()
	if err != nil || len(records) != 1 || records[0].ID != trials[0].ID {
		t.Fatalf("records %+v, %v; want the first trial's alone", records, err)
	}
	for _, err := range r.Events(trials[1].ID) {
		if err != nil {
			t.Errorf("events of the trial that was cut short: %v", err)
		}
	}
	// With free space again, the remaining trials run.
	must.OK(t, os.Remove(filler))
	d = must.Get(result.Resume(dir, []byte(experimentText), result.Environment{}))(t)
	for _, trial := range trials[1:] {
		finish(t, d, trial)
	}
	if records, err := d.Records(); err != nil || len(records) != 4 {
		t.Errorf("%d records, %v", len(records), err)
	}
}

func wantFull(t *testing.T, err error, dir string) {
	t.Helper()
	wantError(t, err, "no space left on device", "tare run --resume "+dir)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("%v", err)
	}
}
