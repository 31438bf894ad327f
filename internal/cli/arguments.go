package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
)

type choiceFlag struct {
	value *string
	name  string // of the flag
	names []string
}

// choice adds a flag with one of several values, and their completion.
func choice(cmd *cobra.Command, value *string, name, usage string, names []string) {
	cmd.Flags().Var(choiceFlag{value, name, names}, name, usage)
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
}

func (c choiceFlag) String() string {
	if c.value == nil { // of pflag, for the zero value
		return ""
	}
	return *c.value
}

func (choiceFlag) Type() string { return "string" }

func (c choiceFlag) Set(text string) error {
	if !slices.Contains(c.names, text) {
		one := "one of "
		if len(c.names) == 1 {
			one = "--" + c.name + " "
		}
		return hint.Usage(fmt.Errorf("--%s is %q", c.name, text), "write "+one+strings.Join(c.names, ", "))
	}
	*c.value = text
	return nil
}

// refusedValue returns the error of a flag's value that is complete by itself.
func refusedValue(err error) (usage *hint.UsageError, ok bool) {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	return usage, ok && errors.As(invalid.Unwrap(), &usage)
}

// outcomes of an undecided gate.
var outcomes = []string{"pass", "fail"}

// writeTo writes to a file, or without one to standard output.
func (c *CommandLine) writeTo(file string, write func(io.Writer) error) error {
	if file == "" {
		return write(c.Out)
	}
	return outfile.Write(file, 0o644, write)
}

// orNewest returns the named directories, without any the newest run. A command that is handed over gets its directory too.
func (c *CommandLine) orNewest(dirs []string) ([]string, error) {
	if len(dirs) > 0 {
		return dirs, nil
	}
	dir, err := c.newest()
	if err != nil {
		return nil, err
	}
	c.handOver.args = append(c.handOver.args, dir)
	return []string{dir}, nil
}

// curves returns the named directories, without any the newest run with several rates. If there is none, a command measures a
// first curve.
func (c *CommandLine) curves(dirs []string) ([]string, error) {
	if len(dirs) > 0 {
		return dirs, nil
	}
	dirs, err := newestFirst()
	if err == nil {
		if i := slices.IndexFunc(dirs, severalRates); i >= 0 {
			c.Notef("newest run with several rates: %s", dirs[i])
			return dirs[i : i+1], nil
		}
		err = hint.Usage(errors.New("no directory is named, and no run in runs/ has several rates"), "name the directory that tare run printed")
	}
	return nil, hint.Usage(err, "measure a curve first: tare run examples/quickstart.yaml --set 'factors.rate=[100, 220, 490, 1000]' --out runs/curve")
}

// severalRates reports whether the treatments of a run differ in their rate.
func severalRates(dir string) bool {
	d, err := result.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	rates := map[experiment.Rate]bool{}
	for _, t := range d.Plan().Treatments {
		rates[t.Levels.Rate] = true
	}
	return len(rates) > 1
}

// newest returns the run in runs/ that began last, and prints its directory to standard error.
func (c *CommandLine) newest() (string, error) {
	dirs, err := newestFirst()
	if err != nil {
		return "", err
	}
	c.Notef("newest run: %s", dirs[0])
	return dirs[0], nil
}

// before returns the newest of the other runs of a run's experiment, and prints its directory to standard error.
func (c *CommandLine) before(run string) (string, error) {
	dirs, err := newestFirst()
	if err != nil {
		return "", err
	}
	name := experimentOf(run)
	i := slices.IndexFunc(dirs, func(dir string) bool { return dir != run && name != "" && experimentOf(dir) == name })
	if i < 0 {
		return "", hint.Usage(fmt.Errorf("runs/ has no earlier run of this experiment than %s", run), "name two runs: tare compare BASE NEW")
	}
	c.Notef("the run before it: %s", dirs[i])
	return dirs[i], nil
}

// newestFirst are the directories in runs/, the one that began last first. There is one at least.
func newestFirst() ([]string, error) {
	plans, err := filepath.Glob(filepath.Join(result.RunsDir, "*", result.PlanFile))
	if err != nil {
		return nil, fmt.Errorf("search for the newest run: %w", err)
	}
	began := map[string]time.Time{}
	for _, file := range plans {
		if at, err := os.Stat(file); err == nil { // the plan is written once
			began[filepath.Dir(file)] = at.ModTime()
		}
	}
	if len(began) == 0 {
		return nil, hint.Usage(errors.New("no directory is named, and runs/ has no run"), "name the directory that tare run printed")
	}
	return slices.SortedFunc(maps.Keys(began), func(a, b string) int { return cmp.Or(began[b].Compare(began[a]), cmp.Compare(b, a)) }), nil
}

// experimentOf is the name of a run's experiment, "" if it cannot be read.
func experimentOf(dir string) string {
	d, err := result.Open(dir)
	if err != nil {
		return ""
	}
	defer d.Close()
	return d.Plan().Experiment
}
