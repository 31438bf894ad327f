package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	duration time.Duration
	trials   int
	seed     uint64
	strands  int
	bin      string
	work     string
	figures  string
	list     int
	strand   int // of a child, -1 for the parent
	end      int64
}

const help = `usage: soak [flags]

soak runs short trials under kills, full disks and missing descriptors. A run hangs
if it does not end in the time that the machine gave it. That is wall time, less the time
in which one of its threads was ready without a processor, less steal time. The
limit is 5 minutes and 30 s a trial. A run that does not end in ten times as much wall
time is ended, and "not judged". So is one that a time limit of tare's own ended, while
it was given less than half of its time.

Exit code 1: a violation.

`

func main() {
	var o settings
	flag.DurationVar(&o.duration, "duration", 2*time.Hour, "time after which no case begins")
	flag.IntVar(&o.trials, "trials", 0, "end after this number of recorded trials; 0: the duration alone ends it")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of experiments and disturbances")
	flag.IntVar(&o.strands, "strands", 3, "strands beside each other: one long run, and others whose tare is ended")
	flag.StringVar(&o.bin, "bin", "bin", "`directory` of tare and tare-agent")
	flag.StringVar(&o.work, "work", "", "existing `directory` for kept results; default: a temporary one")
	flag.StringVar(&o.figures, "o", "soak.json", "`file` of the figures, replaced after each case")
	flag.IntVar(&o.list, "list", 0, "print this number of cases of each strand and run nothing")
	flag.IntVar(&o.strand, "strand", -1, "")
	flag.Int64Var(&o.end, "end", 0, "")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), help)
		flag.PrintDefaults()
	}
	flag.Parse()
	code, err := o.run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		code = 2
	}
	os.Exit(code)
}

func (o *settings) run() (int, error) {
	switch {
	case flag.NArg() > 0 || o.strands < 2 || o.strands > 16:
		return 2, errors.New("usage: soak [flags], with 2 to 16 strands")
	case o.list > 0:
		for i := range o.strands {
			for n := 1; n <= o.list; n++ {
				if err := json.NewEncoder(os.Stdout).Encode(o.newCase(i, n)); err != nil {
					return 2, err
				}
			}
		}
		return 0, nil
	case o.strand >= 0:
		return 0, o.child()
	}
	return o.parent()
}

// longBlocks is more than a strand can run.
const longBlocks = 3000

func (o *settings) newCase(strand, number int) Case {
	if strand == 0 {
		return longCase(o.seed, strand, longBlocks)
	}
	return newCase(o.seed, strand, number)
}

// digest of the first cases of all strands: equal for equal seeds.
func (o *settings) digest() string {
	hash := sha256.New()
	for i := range o.strands {
		for n := 1; n <= 100; n++ {
			_ = json.NewEncoder(hash).Encode(o.newCase(i, n)) // plain values
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// child runs one strand, in the namespaces that its parent gave it.
func (o *settings) child() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP) // its parent ends it
	out := json.NewEncoder(os.Stdout)
	s := &strand{number: o.strand, seed: o.seed, bin: o.bin, end: time.Unix(o.end, 0), emit: func(f *Outcome) { _ = out.Encode(f) }}
	if err := s.enter(o.work); err != nil {
		return err
	}
	if s.number == 0 {
		s.long(longBlocks)
		return nil
	}
	for n := 1; time.Now().Before(s.end); n++ {
		s.run(newCase(s.seed, s.number, n))
	}
	return nil
}

// overtime is the time after the duration for the cases that have begun.
const overtime = 10 * time.Minute

// parent starts the strands and sums what they find.
func (o *settings) parent() (int, error) {
	runtime.LockOSThread() // the strands end with the thread that started them
	var err error
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return 2, err
	}
	for _, name := range []string{"tare", "tare-agent"} {
		if _, err := os.Stat(filepath.Join(o.bin, name)); err != nil {
			return 2, fmt.Errorf("%w: run `make build` first", err)
		}
	}
	if o.work == "" {
		if o.work, err = os.MkdirTemp("/tmp", "soak-"); err != nil {
			return 2, err
		}
	}
	f := &figures{Seed: o.seed, Schedule: o.digest(), Began: time.Now().UTC(), path: o.figures, cases: map[[2]int]*Outcome{}}
	end := time.Now().Add(o.duration)
	var strands []*exec.Cmd
	var readers sync.WaitGroup
	errs := make([]error, o.strands)
	for i := range o.strands {
		cmd, out, err := o.start(i, end)
		if err != nil {
			return 2, fmt.Errorf("strand %d: %w (root, or unprivileged user namespaces, are needed)", i, err)
		}
		strands = append(strands, cmd)
		readers.Go(func() {
			if err := f.read(out); err != nil {
				errs[i] = fmt.Errorf("strand %d: %w", i, err)
			}
		})
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() {
		readers.Wait()
		close(ended)
	}()
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	for over := false; !over; {
		select {
		case <-ended:
			over = true
		case <-stop:
			kill(strands)
		case <-watch.C:
			if time.Now().After(end.Add(overtime)) || o.trials > 0 && f.trials() >= o.trials {
				kill(strands)
			}
		}
	}
	for i, cmd := range strands {
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() > 0 {
			errs[i] = errors.Join(errs[i], fmt.Errorf("strand %d: %w", i, err))
		}
	}
	if err := errors.Join(append(errs, f.write())...); err != nil {
		return 2, err
	}
	f.print(os.Stdout)
	if len(f.Sum.Violations)+len(f.Sum.Ends) == 0 {
		return 0, os.RemoveAll(o.work)
	}
	fmt.Println("directories of cases with violations, and stderr of unexplained ends:", o.work)
	if len(f.Sum.Violations) == 0 {
		return 0, nil
	}
	return 1, nil
}

func kill(strands []*exec.Cmd) {
	for _, cmd := range strands {
		_ = cmd.Process.Kill() // and the kernel everything below it
	}
}

// start starts a strand in namespaces of its own.
func (o *settings) start(i int, end time.Time) (*exec.Cmd, io.Reader, error) {
	work := filepath.Join(o.work, fmt.Sprintf("s%d-%d", i, os.Getpid()))
	if err := os.Mkdir(work, 0o700); err != nil {
		return nil, nil, err
	}
	cache, err := os.UserCacheDir() // of the programs that tests share
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, "-strand", fmt.Sprint(i), "-seed", fmt.Sprint(o.seed), "-bin", o.bin, "-work", work, "-end", fmt.Sprint(end.Unix()))
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, out, cmd.Start()
}

// read takes the outcomes of a strand.
func (f *figures) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a last line without an end was torn
		}
		if err != nil {
			return err
		}
		var o Outcome
		if err := json.Unmarshal(line, &o); err != nil {
			return err
		}
		if err := f.take(&o); err != nil {
			return err
		}
	}
}

// take replaces the outcome of a case and writes the figures.
func (f *figures) take(o *Outcome) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cases[[2]int{o.Strand, o.Case}] = o
	for _, v := range o.Violations {
		if o.Done {
			fmt.Printf("strand %d, case %d, attempt %d: %s\n%s\n\n", v.Strand, v.Case, v.Attempt, v.What, v.Detail)
		}
	}
	return f.writeLocked()
}

func (f *figures) trials() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.cases {
		n += o.Trials
	}
	return n
}

// keys are the cases in order.
func (f *figures) keys() (all [][2]int) {
	for k := range f.cases {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	return all
}
