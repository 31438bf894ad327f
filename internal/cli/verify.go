package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/result/verify"
	"github.com/tare-mesh/tare/internal/show/report"
)

// verifyForms are the forms of the findings, the default first.
var verifyForms = report.Safe(
	report.Form[[]*verify.Result]{Name: "text", Write: writeVerified},
	report.Form[[]*verify.Result]{Name: "json", Write: func(w io.Writer, all []*verify.Result) error {
		return report.WriteAnswered(w, verifiedBrief(all), struct {
			Directories []*verify.Result `json:"directories"`
		}{all})
	}},
)

// verifiedBrief is the answer: whether every check of every directory holds.
func verifiedBrief(all []*verify.Result) answer.Brief {
	b := answer.Brief{Sentence: printable.Counted(len(all), "directory") + " verified.", Verdict: compare.Verdict(compare.Holds), Subject: all[0].Dir}
	if err := verified(all); err != nil {
		b.Sentence, b.Verdict, b.ExitCode = err.Error()+".", compare.Verdict(compare.Breached), console.Code(err)
	}
	for _, r := range all {
		for _, f := range r.Findings {
			if f.Severity == verify.Problem && b.Reason == "" {
				b.Subject, b.Reason = r.Dir, f.File+": "+f.Message
			}
		}
	}
	return b
}

func newVerifyCommand(c *CommandLine) *cobra.Command {
	names := report.Names(verifyForms)
	format, meshes := names[0], []string{}
	cmd := &cobra.Command{
		Use:   "verify [DIR…]",
		Short: "Check that results directories were not changed and do not contradict themselves",
		Long: `verify checks that results directories, by default the newest run in runs/, are as
tare wrote them:

  - every file that SHA256SUMS or the manifest of a trial lists exists, with its SHA-256;
  - there is no other file, link or empty directory;
  - counts agree: answers, classes, statuses, histograms, seconds of the load;
  - CPU, memory, planes and times of tasks agree with slices and samples;
  - validity and warnings follow from the figures, the events and the limits;
  - CPU time advances, and phases follow one another;
  - plan, seed and records fit, and the experiment file gives the same plan again.

It prints one line for each finding. A note is no error: a trial that has not run, or a
directory without SHA256SUMS, of a killed run or an older tare. report and compare
check records and slices each time, and leave out trials that fail. Digests find damage
and mistakes. They do not stop a person who computes them again: to publish a
directory, sign its SHA256SUMS with minisign, cosign or gpg. ` + "`sha256sum -c SHA256SUMS`" + `
in the directory checks the files without tare.

Exit codes: 0 no problem; 4 a problem was found; 1 a directory cannot be read.`,
		Example: `  tare verify runs/quickstart-20260301T120000Z
  tare verify runs/*
  tare verify runs/mine --format json
  tare verify runs/mine --mesh ./my-mesh.yaml`,
		RunE: func(_ *cobra.Command, args []string) error {
			args, err := c.orNewest(args)
			if err != nil {
				return err
			}
			all, err := c.verify(args, meshes)
			if err != nil {
				return err
			}
			if err := report.Write(c.Out, all, verifyForms, format); err != nil {
				return err
			}
			return verified(all)
		},
	}
	f := cmd.Flags()
	choice(cmd, &format, "format", "format of the findings: "+strings.Join(names, " or "), names)
	f.StringArrayVar(&meshes, "mesh", nil, "add a mesh definition from a `file` that the experiment names; may be repeated")
	_ = cmd.MarkFlagFilename("mesh", "yaml", "yml")
	return cmd
}

func (c *CommandLine) verify(dirs, meshes []string) ([]*verify.Result, error) {
	o := verify.Options{Tare: console.Version(), Expand: planOf(meshes...), Judge: judgeOf}
	var all []*verify.Result
	for _, dir := range dirs {
		r, err := verify.Dir(dir, o)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// writeVerified writes a table of findings, and a line for each directory.
func writeVerified(w io.Writer, all []*verify.Result) error {
	var rows [][]string
	for _, r := range all {
		for _, f := range r.Findings {
			rows = append(rows, []string{string(f.Severity), r.Dir, f.File, f.Message})
		}
	}
	if len(rows) > 0 {
		if err := console.Table(w, []string{"FINDING", "DIRECTORY", "FILE", "MESSAGE"}, rows); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	var lines [][]string
	for _, r := range all {
		outcome := "verified"
		if n := r.Problems(); n > 0 {
			outcome = printable.Counted(n, "problem")
		}
		lines = append(lines, []string{r.Dir, fmt.Sprintf("%d of %d", r.Recorded, r.Due), fmt.Sprint(r.Files), outcome})
	}
	return console.Table(w, []string{"DIRECTORY", "TRIALS", "DIGESTS", "OUTCOME"}, lines)
}

// verified is the exit code.
func verified(all []*verify.Result) error {
	problems, dirs := 0, []string{}
	for _, r := range all {
		if n := r.Problems(); n > 0 {
			problems, dirs = problems+n, append(dirs, r.Dir)
		}
	}
	if problems == 0 {
		return nil
	}
	return &console.ExitError{Err: fmt.Errorf("%s in %s", printable.Counted(problems, "problem"), strings.Join(dirs, ", ")), Code: console.Gate}
}
