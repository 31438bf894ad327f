package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/result/verify"
)

// strand runs cases one after another, in namespaces of its own.
type strand struct {
	number int
	seed   uint64
	bin    string // directory of tare and tare-agent
	world  world
	end    time.Time // no case begins after it
	emit   func(*Outcome)
}

// Limits of the time that a run is given ([allowance]). Tare has shorter ones for each step. A run beyond these hangs.
const (
	hangs     = 5 * time.Minute  // an attempt, beyond its trials' time
	verifying = 2 * time.Minute  // tare verify, report or plan
	slowTrial = 30 * time.Second // a trial
)

// enter prepares the namespaces, in which the process already is.
func (s *strand) enter(work string) error {
	s.world = world{strand: filepath.Base(work), work: work, home: filepath.Join(work, "home"), tmp: filepath.Join(work, "tmp"),
		state: filepath.Join(work, "state"), out: filepath.Join(work, "out")}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	for _, dir := range []string{s.world.home, s.world.tmp, s.world.state, s.world.out} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	for _, dir := range []string{s.world.tmp, s.world.out} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,"+roomy); err != nil {
			return fmt.Errorf("mount a small file system: %w", err)
		}
	}
	s.world.addresses, s.world.namespaces = addresses(), namedNamespaces()
	if left := s.world.alive(); len(left) > 0 {
		return fmt.Errorf("the namespaces are not empty: %q", left)
	}
	return nil
}

// roomy is the size of a file system that is not to fill.
const roomy = "size=1g"

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// command runs a program of the strand. The kernel ends it with this process.
func (s *strand) command(ctx context.Context, limit Limit, args ...string) *exec.Cmd {
	var options []string
	switch limit.Of {
	case Descriptors:
		options = []string{fmt.Sprintf("--nofile=%d:%d", limit.Size, limit.Size)}
	case FileSize:
		options = []string{fmt.Sprintf("--fsize=%d:%d", limit.Size, limit.Size)}
	}
	path := filepath.Join(s.bin, "tare")
	if options != nil {
		path, args = "prlimit", append(append(options, path), args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.world.work
	cmd.Env = append(os.Environ(), marker+"="+s.world.strand, "HOME="+s.world.home, "TMPDIR="+s.world.tmp, "XDG_STATE_HOME="+s.world.state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// starved is the exit code of a command that the machine gave no CPU.
const starved = -2

// tare runs one command to its end.
func (s *strand) tare(args ...string) (stdout, stderr []byte, code int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cmd := s.command(ctx, Limit{}, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	go newAllowance(verifying, s.world.strand).watch(ctx, s.world.strand, cancel)
	e := cmd.Run()
	switch {
	case cmd.ProcessState == nil:
		return nil, []byte(e.Error()), -1
	case errors.Is(context.Cause(ctx), errStarved):
		return nil, nil, starved
	}
	return out.Bytes(), err.Bytes(), cmd.ProcessState.ExitCode()
}

// run runs one case.
func (s *strand) run(c Case) {
	o := newOutcome(s.number, c.Number)
	dir := filepath.Join(s.world.out, fmt.Sprintf("case-%d", c.Number))
	file := dir + ".yaml"
	r := &running{strand: s, of: c, outcome: o, file: file, dir: dir}
	if err := os.WriteFile(file, []byte(c.Experiment), 0o600); err != nil {
		o.violate(0, "the soak itself failed", err.Error())
	}
	for i, a := range c.Attempts {
		r.attempt(i+1, a, time.Time{})
	}
	r.attempt(len(c.Attempts)+1, Attempt{}, time.Time{})
	r.finished(len(c.Attempts) + 1)
	o.Done = true
	s.keep(r)
	s.emit(o)
}

// keep copies the directory of a case with violations out of the namespace, and removes the rest.
func (s *strand) keep(r *running) {
	if len(r.outcome.Violations) > 0 {
		kept := filepath.Join(s.world.work, "kept")
		_ = os.Mkdir(kept, 0o700)
		if entries, _ := os.ReadDir(kept); len(entries) < 2*maxKept {
			_ = exec.Command("cp", "-a", "--", r.dir, r.file, kept).Run()
		}
	}
	_ = os.RemoveAll(r.dir)
	_ = os.Remove(r.file)
}

// maxKept bounds the directories that are kept for a person to look at.
const maxKept = 10

// running is a case in progress.
type running struct {
	*strand
	of        Case
	outcome   *Outcome
	file, dir string
	hits      []hit
	stderr    string // of the last attempt
	// check is the signal that a version check got in the last attempt. Empty means none.
	check string
	// interrupted: the soak itself ended the attempt, at the end of its time.
	interrupted bool
	// given is the time that the machine gave the last attempt, and stopped why the soak ended it.
	// Nil means that it did not.
	given   *allowance
	stopped error
	// late: a time limit of tare's own ended the last attempt, which had too little CPU.
	late bool
}

// hit is a signal that reached a part of a run.
type hit struct {
	at     time.Time
	victim Victim
}

// attempt starts tare, or resumes its run, and disturbs it. A run that goes on at stop is interrupted.
func (r *running) attempt(number int, a Attempt, stop time.Time) {
	r.outcome.Attempts++
	args := []string{"run", r.file, "--out", r.dir}
	if _, err := os.Stat(filepath.Join(r.dir, result.PlanFile)); err == nil {
		args = []string{"run", "--resume", r.dir}
	} else if _, err := os.Stat(r.dir); err == nil {
		r.outcome.Again++ // killed before it began; the message of tare's is to remove it
		_ = os.RemoveAll(r.dir)
	}
	r.fill(number, a.Limit)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cmd := r.command(ctx, a.Limit, append(args, "--plain")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // prints the goroutines of a run that hangs
	cmd.WaitDelay = verifying
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	r.interrupted, r.check = false, ""
	start := time.Now()
	began := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		runtime.LockOSThread() // the child ends with the thread that started it
		defer close(ended)
		err := cmd.Start()
		began <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-began; err != nil {
		r.outcome.violate(number, "the soak itself failed", err.Error())
		return
	}
	r.given = newAllowance(hangs+time.Duration(r.of.Trials)*slowTrial, r.world.strand)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		r.given.watch(ctx, r.world.strand, cancel)
	}()
	r.disturb(cmd, a, stop, ended)
	<-ended
	cancel(nil)
	<-watched
	r.fill(number, Limit{})
	code, state := cmd.ProcessState.ExitCode(), cmd.ProcessState.String()
	r.stopped = nil
	switch err := context.Cause(ctx); {
	case errors.Is(err, errHangs):
		r.stopped = err
		r.outcome.violate(number, "tare hangs", fmt.Sprintf("%v\n%s", r.given, stderr.String()))
	case errors.Is(err, errStarved):
		r.stopped = err
		r.outcome.Starved++
	}
	r.outcome.Exits[fmt.Sprintf("%s: %s", a.name(), state)]++
	if a.Limit.Of != "" {
		r.outcome.Limits[fmt.Sprintf("%s, exit %d", a.Limit.Of, code)]++
	}
	r.stderr = stderr.String()
	r.end(number, a, code, state, r.stderr, time.Since(start))
	r.judge(number, a, code, r.stderr)
}

// name describes the disturbance of an attempt.
func (a Attempt) name() string {
	switch {
	case a.Limit.Of != "":
		return string(a.Limit.Of)
	case len(a.Kills) == 0:
		return "undisturbed"
	case a.Kills[0].Victim == Tare:
		return "tare " + unix.SignalName(a.Kills[0].Signal)
	}
	return "parts"
}

// fill gives a file system the size of a limit, or room again.
func (r *running) fill(number int, l Limit) {
	for of, dir := range map[Resource]string{Results: r.world.out, Temporary: r.world.tmp} {
		size := roomy
		if l.Of == of {
			var now unix.Statfs_t
			_ = unix.Statfs(dir, &now)
			used := int64(now.Blocks-now.Bfree) * now.Bsize
			size = fmt.Sprintf("size=%d", used+l.Size)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, size); err != nil {
			r.outcome.violate(number, "the soak itself failed", err.Error())
		}
	}
}

// pace is the time between two samples of a long run.
const pace = 2 * time.Second

// disturb sends the signals of an attempt until tare ends. In a long run it also samples what tare
// holds, and interrupts tare at stop.
func (r *running) disturb(cmd *exec.Cmd, a Attempt, stop time.Time, ended <-chan struct{}) {
	start, kills := time.Now(), a.Kills
	var tick <-chan time.Time
	if !stop.IsZero() {
		ticker := time.NewTicker(pace)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		var next <-chan time.Time
		if len(kills) > 0 {
			next = time.After(time.Until(start.Add(kills[0].After)))
		}
		select {
		case <-ended:
			if stop.IsZero() {
				r.outcome.Missed += len(kills)
			}
			return
		case <-next:
			r.strike(kills[0], cmd.Process.Pid)
			kills = kills[1:]
		case <-tick:
			r.sample(cmd.Process.Pid)
			if time.Now().After(stop) {
				r.interrupted = true
				_ = cmd.Process.Signal(syscall.SIGINT)
				kills, tick = nil, nil
			}
		}
	}
}

// strike sends one signal and keeps its time.
func (r *running) strike(k Kill, tare int) {
	p := strike(r.world.strand, k, tare)
	if p == nil {
		r.outcome.Missed++
		return
	}
	victim := string(k.Victim)
	if p.check() {
		victim = "version check"
		r.check = unix.SignalName(k.Signal)
	}
	r.outcome.Struck[fmt.Sprintf("%s %s", victim, unix.SignalName(k.Signal))]++
	r.hits = append(r.hits, hit{time.Now(), k.Victim})
}

// sample keeps what tare holds, and emits the outcome so far once a minute.
func (r *running) sample(tare int) {
	records, _ := filepath.Glob(filepath.Join(r.dir, result.TrialsDir, "*", result.RecordFile))
	u, ok := usageOf(tare)
	if !ok || len(records) == 0 {
		return
	}
	r.outcome.Trials = len(records)
	r.outcome.Samples = append(r.outcome.Samples, Sample{float64(len(records)), u})
	if len(r.outcome.Samples)%int(time.Minute/pace) == 0 {
		r.emit(r.outcome)
	}
}

// crashes are texts that a program of Go writes when it crashes.
var crashes = []string{"panic:", "goroutine ", "fatal error:", "SIGSEGV", "DATA RACE"}

// allowed are the exit codes of a disturbed run: done, failed with a message, incomplete, interrupted.
var allowed = map[int]bool{0: true, 1: true, 3: true, 130: true}

// judge checks what must hold after every attempt.
func (r *running) judge(number int, a Attempt, code int, stderr string) {
	o := r.outcome
	killed := len(a.Kills) > 0 && a.Kills[0].Victim == Tare && a.Kills[0].Signal == syscall.SIGKILL
	for _, text := range crashes {
		if r.stopped == nil && strings.Contains(stderr, text) { // SIGQUIT prints goroutines too
			o.violate(number, "tare crashed", stderr)
			break
		}
	}
	if r.stopped == nil && !allowed[code] && !(killed && code == -1) && !a.refused(code, stderr) {
		o.violate(number, "exit code", fmt.Sprintf("%d of an attempt with %s\n%s", code, a.name(), stderr))
	}
	if code == 1 && !strings.Contains(stderr, "tare: ") {
		o.violate(number, "no message", fmt.Sprintf("exit code 1 of an attempt with %s\n%s", a.name(), stderr))
	}
	o.Searches++
	if left := r.world.remains(code >= 0 && r.stopped == nil); len(left) > 0 {
		o.violate(number, "left behind", strings.Join(left, "\n")+"\n"+stderr)
		r.clear()
	}
	if _, err := os.Stat(filepath.Join(r.dir, result.PlanFile)); err == nil {
		r.verify(number)
	}
}

// clear removes leftovers, so that they are found once.
func (r *running) clear() {
	for _, p := range processesOf(r.world.strand) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	left, _ := filepath.Glob(filepath.Join(r.world.tmp, "*"))
	for _, path := range left {
		_ = os.RemoveAll(path)
	}
}

// verify runs tare verify, which also makes the plan again from the experiment file.
func (r *running) verify(number int) {
	out, stderr, code := r.tare("verify", r.dir, "--format", "json")
	if code == starved {
		r.outcome.Starved++
		return
	}
	var found []verify.Result
	if err := json.Unmarshal(out, &found); err != nil || len(found) != 1 {
		r.outcome.violate(number, "not verified", fmt.Sprintf("exit code %d, %v\n%s%s", code, err, out, stderr))
		return
	}
	r.outcome.Verified++
	r.outcome.Repeated++
	r.outcome.Digests += found[0].Files
	if n := found[0].Problems(); n > 0 || code != 0 {
		text, _ := json.MarshalIndent(found[0].Findings, "", " ")
		r.outcome.violate(number, "not verified", fmt.Sprintf("exit code %d, %d problems\n%s\n%s", code, n, text, stderr))
	}
}

// finished checks a run whose last attempt nothing disturbed.
func (r *running) finished(number int) {
	o := r.outcome
	d, err := result.Open(r.dir)
	if err != nil {
		o.violate(number, "not readable", err.Error())
		return
	}
	records, err := d.Records()
	if err != nil {
		o.violate(number, "not readable", err.Error())
		return
	}
	o.Trials = len(records)
	if r.of.Number > 0 && r.stopped == nil && !r.late && len(records) != r.of.Trials {
		o.violate(number, "not complete", fmt.Sprintf("%d of %d trials are recorded\n%s", len(records), r.of.Trials, r.stderr))
	}
	for i := range records {
		switch rec := &records[i]; {
		case rec.Error != "":
			o.Failed++
		case !rec.Valid:
			o.Invalid++
		default:
			o.Valid++
			r.unnoticed(number, rec)
		}
	}
	out, stderr, code := r.tare("report", r.dir, "--format", "json")
	switch {
	case code == starved:
		o.Starved++
		return
	case code != 0 || !json.Valid(out):
		o.violate(number, "no report", fmt.Sprintf("exit code %d\n%s", code, stderr))
	}
	o.Reports++
}

// unnoticed finds a valid trial, parts of which were ended in its measure phase.
func (r *running) unnoticed(number int, rec *result.Record) {
	for _, p := range rec.Phases {
		for _, h := range r.hits {
			if p.Name == "measure" && h.victim != Tare && len(rec.Faults) == 0 && h.at.After(p.Start) && h.at.Before(p.End) && !r.shared(rec) {
				r.outcome.violate(number, "unnoticed", fmt.Sprintf("trial %s is valid, and its %s was killed in its measure phase", rec.ID, h.victim))
			}
		}
	}
}

// shared reports whether other trials had their measure phase at the same time: the signal may have been theirs.
func (r *running) shared(rec *result.Record) bool { return rec.Load != nil && rec.Load.Slices != nil }

// long runs one experiment until the strand ends. Its parts are killed, tare is not.
func (s *strand) long(blocks int) {
	c := longCase(s.seed, s.number, blocks)
	r := &running{strand: s, of: c, outcome: newOutcome(s.number, 0), file: filepath.Join(s.world.out, "long.yaml"), dir: filepath.Join(s.world.out, "long")}
	if err := os.WriteFile(r.file, []byte(c.Experiment), 0o600); err != nil {
		r.outcome.violate(0, "the soak itself failed", err.Error())
	}
	n := 1
	for ; n == 1 || time.Now().Before(s.end) && n < maxKept; n++ {
		earlier := r.outcome.Samples
		r.outcome.Samples = nil // of this process
		if r.attempt(n, c.Attempts[0], s.end); time.Now().Before(s.end) && !r.checked(r.stderr) && r.stopped == nil && !r.late {
			r.outcome.violate(n, "ended early", r.stderr)
		}
		if len(earlier) > len(r.outcome.Samples) {
			r.outcome.Samples = earlier
		}
	}
	r.finished(n)
	r.outcome.Done = true
	s.keep(r)
	s.emit(r.outcome)
}
