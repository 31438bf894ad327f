package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/session"
	"github.com/tare-mesh/tare/internal/show/report"
)

// replay decides the gates of recorded runs again: after each block, as the run did, until they are decided.
func (c abCommand) replay(dirs []string, o abOptions) error {
	options, err := o.replayOptions()
	if err != nil {
		return err
	}
	var all []session.Replayed
	var outcomes []compare.Decision
	for _, dir := range dirs {
		r, err := session.Replay(dir, options, o.replayTime)
		if err != nil {
			return gateMistake(err)
		}
		all, outcomes = append(all, r), append(outcomes, r.Decisions...)
	}
	decided := c.decided(compare.Decided(outcomes), o.undecided)
	if o.report.exit = console.Code(forBisect(o.bisect, decided)); len(all) == 1 {
		err = c.writeReplay(all[0], options, o.report)
	} else {
		err = writeReplays(c.Out, all, outcomes, o.report)
	}
	return cmp.Or(err, decided)
}

// replayOptions returns the options of the analysis. It refuses flags that describe a run.
func (o abOptions) replayOptions() (compare.Options, error) {
	options := compare.Options{Gates: o.Gates}
	if len(o.Mesh)+len(o.Programs)+len(o.Versions)+len(o.AB.Set) > 0 || o.A != "" || o.B != "" || o.out != "" || len(o.Commands) > 0 {
		return options, hint.Usage(errors.New("--from reads runs, and needs no flag that describes one"), "such as: tare ab --from runs/mine --gate '"+session.DefaultGate+"'")
	}
	if o.Detect == "" {
		return options, nil
	}
	if len(o.Gates) == 0 {
		return options, hint.Usage(errors.New("--detect needs --gate"), "with --from, gates and --detect of the run are used together, or those of the flags")
	}
	var detect experiment.Share
	if err := detect.UnmarshalScalar(o.Detect); err != nil {
		return options, hint.Usage(fmt.Errorf("--detect: %w", err), "write it as --detect 1%")
	}
	options.Detect = float64(detect)
	return options, nil
}

// writeReplay writes the report of a run as it was at the deciding look.
func (c abCommand) writeReplay(r session.Replayed, o compare.Options, format reportOptions) error {
	f, err := reportFormat(format, console.Columns(c.Out), console.Color(c.Out))
	if err != nil {
		return err
	}
	if f.Export != nil {
		return hint.Usage(fmt.Errorf("format %s is a directory of files", f.Name), "choose another format")
	}
	d, err := result.Open(r.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	o.Blocks, o.LastLook = r.Block, r.Last
	rep, err := answer.Analyze(d, o)
	if err != nil {
		return err
	}
	return f.WriteTo(c.Out, answer.Analysis{Report: rep, Dir: d, Options: o})
}

// writeReplays writes a line for each gate of each run, and the number of runs by outcome.
func writeReplays(w io.Writer, all []session.Replayed, decisions []compare.Decision, o reportOptions) error {
	var rows [][]string
	count := map[compare.Outcome]int{}
	for _, r := range all {
		count[compare.Decided(r.Decisions)]++
		for _, d := range r.Decisions {
			change := "-"
			if d.Change != nil {
				change = report.ChangeWords(d)
			}
			rows = append(rows, []string{r.Dir, d.Gate, string(d.Outcome), change, fmt.Sprint(d.Pairs), fmt.Sprint(d.Max)})
		}
	}
	sentence := fmt.Sprintf("%s: %d breached, %d hold, %d undecided", printable.Counted(len(all), "run"), count[compare.Breached], count[compare.Holds], count[compare.Undecided])
	if o.format == "json" {
		b := answer.Brief{Sentence: sentence, Verdict: compare.Verdict(compare.Decided(decisions)), ExitCode: o.exit}
		return answered(w, b, struct {
			Runs []session.Replayed `json:"runs"`
		}{all})
	}
	if err := console.Table(w, []string{"RUN", "GATE", "OUTCOME", "CHANGE", "PAIRS", "OF"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", sentence)
	return err
}
