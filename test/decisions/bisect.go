package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/tare-mesh/tare/internal/metric"
)

// planted is a repository whose commits are configurations of a proxy. One of them adds a weight.
type planted struct {
	mesh    string
	commits int
	file    string // of the configuration
	// before and after are the content of the file.
	before, after string
	// gate between the two, and how it is decided.
	gate, detect string
	rate         string
	measure      time.Duration // of each treatment in a block
	maxTime      time.Duration
}

// plantings by mesh. They are made to be decided in few blocks, with the same bound on the error. The effect is as far
// beyond the gate as the gate and --detect are beyond none. A short --max-time plans few looks, so that more of the error may
// be spent in the first ones, and bounds the whole: 200 commits take eight steps at most. The reference proxy burns CPU time
// for each call that it accepts: 1 ms of the 1,330 µs of a pair of proxies. It does not vary with the machine, so that 3 %, 40 µs,
// are far above its noise. A busy machine decides more at 50 requests/s (-rate, -measure). Tracing adds a quarter to Envoy's CPU.
var plantings = map[string]planted{
	"reference": {mesh: "reference", commits: 200, file: "arguments.json", before: `["--burn", "1000us"]`, after: `["--burn", "1040us"]`,
		gate: metric.CPUPerRequest + "/data < +0.75%", detect: "1.5%", rate: "300", measure: 2 * time.Second, maxTime: 100 * time.Second},
	"envoy": {mesh: "envoy", commits: 30, file: "options.json", before: `{"tracing": "false"}`, after: `{"tracing": "true"}`,
		gate: metric.CPUPerRequest + "/data < +8%", detect: "8%", rate: "300", measure: 1500 * time.Millisecond, maxTime: 3 * time.Minute},
}

// realSettings shorten the blocks of real proxies, and keep the blocks of a busy machine.
func (p planted) realSettings() []string {
	return []string{
		fmt.Sprintf("phases={warmup: 300ms, measure: %v, drain: 500ms}", p.measure),
		"validity={rateShortfall: 0.5, lateness: 5s, generatorCPU: 1, errorRatio: 0.05}",
		// Requests that meet, by Poisson arrivals, save wake-ups, and hide a part of the weight.
		"load.arrivals=constant",
	}
}

// planting is that of the mesh, with the settings of the flags.
func (s settings) planting() (planted, bool) {
	p, ok := plantings[s.mesh]
	p.rate, p.measure, p.maxTime = cmp.Or(s.rate, p.rate), cmp.Or(s.measure, p.measure), cmp.Or(s.maxTime, p.maxTime)
	return p, ok
}

// syntheticWeight is the cost of the planted commit in a synthetic run, as a share of the CPU.
const syntheticWeight = 0.03

func bisect(ctx context.Context, s settings) error {
	p, ok := s.planting()
	if !ok || !s.real && s.mesh != "reference" {
		return fmt.Errorf("no planting for mesh %q", s.mesh)
	}
	kind := "synthetic runs, noise of a pair 2 %"
	if s.real {
		kind = "real proxies, mesh " + s.mesh
	}
	fmt.Printf("%d repositories of %d commits, %s, gate %s, --detect %s, seed %d\n\n", s.runs, p.commits, kind, p.gate, p.detect, s.seed)
	fmt.Println("| repository | planted | found | steps | skipped | time |\n|---|---|---|---|---|---|")
	found := 0
	for i := range s.runs {
		seed := s.seed + uint64(1000*i)
		at := 2 + rand.New(rand.NewPCG(seed, 2)).IntN(p.commits-1) // the first commit is good
		r, err := s.search(ctx, p, at, seed)
		if err != nil {
			return err
		}
		if r.found == at {
			found++
		}
		fmt.Printf("| %d | %d | %s | %d | %d | %v |\n", i+1, at, r.words(), r.steps, r.skipped, r.took.Round(time.Second))
	}
	fmt.Printf("\nFound in %d of %d repositories.\n", found, s.runs)
	if found < s.runs {
		return &exitCode{1}
	}
	return nil
}

// searched is the outcome of git bisect.
type searched struct {
	found          int // number of the commit, 0 for none
	steps, skipped int
	took           time.Duration
}

func (s searched) words() string {
	if s.found == 0 {
		return "undecided"
	}
	return strconv.Itoa(s.found)
}

// search makes the repository and runs git bisect in it.
func (s settings) search(ctx context.Context, p planted, at int, seed uint64) (r searched, err error) {
	dir, remove, err := s.scratch()
	if err != nil {
		return r, err
	}
	defer remove()
	repository := filepath.Join(dir, "repository")
	if err := p.create(ctx, repository, at); err != nil {
		return r, err
	}
	begun := time.Now()
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", repository}, args...)...)
		cmd.Env = append(os.Environ(), stepVariable+"="+fmt.Sprint(seed), "GIT_CONFIG_GLOBAL=/dev/null")
		if s.real {
			cmd.Stderr = os.Stderr
		}
		out, err := cmd.Output()
		if err != nil && errors.As(err, new(*exec.ExitError)) {
			return string(out), fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
		return string(out), err
	}
	if _, err := git("bisect", "start", fmt.Sprintf("v%d", p.commits), "v1"); err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	command := []string{"bisect", "run", self, "step", "-tare", s.tare, "-mesh", p.mesh, "-dir", dir}
	if s.real {
		command = append(command, "-real", "-rate", p.rate, "-measure", p.measure.String(), "-max-time", p.maxTime.String())
	}
	if out, err := git(command...); err != nil && !strings.Contains(out, "only skipped commits left to test") && !strings.Contains(out, "'skip'ped") {
		return r, err
	}
	log, err := git("bisect", "log")
	if err != nil {
		return r, err
	}
	r.took = time.Since(begun)
	for line := range strings.Lines(log) {
		switch {
		case strings.HasPrefix(line, "git bisect skip"):
			r.skipped++
			r.steps++
		case strings.HasPrefix(line, "git bisect good"), strings.HasPrefix(line, "git bisect bad"):
			r.steps++
		}
	}
	if !strings.Contains(log, "# first bad commit: ") {
		return r, nil
	}
	name, err := git("describe", "--tags", "--exact-match", "refs/bisect/bad")
	if err != nil {
		return r, err
	}
	r.found, err = strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(name), "v"))
	return r, err
}

// create makes the repository: each commit changes a note, and one the configuration. Commit n has the tag vn.
func (p planted) create(ctx context.Context, dir string, at int) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var in bytes.Buffer
	data := func(text string) { fmt.Fprintf(&in, "data %d\n%s\n", len(text), text) }
	for n := 1; n <= p.commits; n++ {
		content, message := p.before, fmt.Sprintf("Change %d", n)
		if n >= at {
			content = p.after
		}
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter Somebody <somebody@example.com> %d +0000\n", n, 1_700_000_000+60*n)
		data(message)
		fmt.Fprintf(&in, "M 100644 inline %s\n", p.file)
		data(content)
		fmt.Fprint(&in, "M 100644 inline note\n")
		data(message)
		fmt.Fprintf(&in, "reset refs/tags/v%d\nfrom :%d\n\n", n, n)
	}
	for _, c := range []struct {
		args []string
		in   *bytes.Buffer
	}{
		{[]string{"init", "--quiet", "--initial-branch", "main"}, nil},
		{[]string{"fast-import", "--quiet"}, &in},
		{[]string{"checkout", "--quiet", "main"}, nil},
	} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, c.args...)...)
		if c.in != nil {
			cmd.Stdin = c.in
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", c.args[0], err, out)
		}
	}
	return nil
}

// stepVariable is the environment variable with the seed of a repository.
const stepVariable = "DECISIONS_SEED"

// step is the command of git bisect run: tare ab --bisect between the first configuration and that of the checkout.
func step(ctx context.Context, s settings) error {
	p, _ := s.planting()
	content, err := os.ReadFile(p.file)
	if err != nil {
		return err
	}
	args := []string{"ab", "--bisect", "--gate", p.gate, "--detect", p.detect}
	if s.real {
		out, err := os.MkdirTemp(s.dir, "step-*")
		if err != nil {
			return err
		}
		field := strings.TrimSuffix(p.file, ".json")
		args = append(args, "--mesh", p.mesh, "--rate", p.rate, "--plain", "--max-time", p.maxTime.String(), "--out", filepath.Join(out, "run"),
			"--set", "a."+field+"="+p.before, "--set", "b."+field+"="+string(content))
		for _, setting := range p.realSettings() {
			args = append(args, "--set", setting)
		}
	} else {
		run, err := p.synthetic(s.dir, string(content))
		if err != nil {
			return err
		}
		args = append(args, "--from", run)
	}
	cmd := exec.CommandContext(ctx, s.tare, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	begun := time.Now()
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	if s.real {
		fmt.Fprintf(os.Stderr, "step: exit code %d after %v with %s\n", cmd.ProcessState.ExitCode(), time.Since(begun).Round(time.Second), bytes.TrimSpace(content))
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		return &exitCode{code}
	}
	return nil
}

// synthetic writes a run between the first configuration and content. Each checkout has noise of its own.
func (p planted) synthetic(dir, content string) (string, error) {
	if !json.Valid([]byte(content)) {
		return "", fmt.Errorf("%s: %q is not JSON", p.file, content)
	}
	run, err := os.MkdirTemp(dir, "step-*")
	if err != nil {
		return "", err
	}
	seed, err := strconv.ParseUint(os.Getenv(stepVariable), 10, 64)
	if err != nil {
		return "", fmt.Errorf("%s: %w", stepVariable, err)
	}
	steps, err := filepath.Glob(filepath.Join(dir, "step-*"))
	if err != nil {
		return "", err
	}
	t := truth{noise: 0.02, blocks: blocks}
	if strings.TrimSpace(content) != p.before {
		t.change = syntheticWeight
	}
	return filepath.Join(run, "run"), t.write(filepath.Join(run, "run"), seed+uint64(len(steps)))
}
