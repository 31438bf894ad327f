// Package health prints the checks of tare doctor.
package health

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/cli/console"
)

// Verdict of a check.
type Verdict int

// The verdicts.
const (
	OK     Verdict = iota
	Warn           // runs work, with noisier measurements
	Fail           // a run cannot work
	Absent         // optional, not installed
)

var words = map[Verdict]string{OK: "ok", Warn: "warn", Fail: "FAIL", Absent: "none"}

func (v Verdict) String() string { return words[v] }

// Finding is the outcome of one check.
type Finding struct {
	Verdict Verdict
	Detail  string
	Hint    string // replaces the check's own
}

// Row is one line of the table.
type Row struct {
	Name string
	Finding
}

// Found is OK with a detail.
func Found(detail string) Finding { return Finding{Detail: detail} }

// WarnIf warns if bad is true.
func WarnIf(bad bool, format string, args ...any) Finding {
	f := Found(fmt.Sprintf(format, args...))
	if bad {
		f.Verdict = Warn
	}
	return f
}

// Write prints the table, each hint below its line, and a conclusion. It returns an error if a run cannot work.
func Write(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	count := map[Verdict]int{}
	for _, r := range rows {
		count[r.Verdict]++
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Verdict, printable.Line(r.Name), printable.Text(r.Detail))
		if r.Verdict != OK && r.Hint != "" {
			fmt.Fprintf(t, "\t\thint: %s\n", printable.Text(r.Hint))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	switch {
	case count[Fail] > 0:
		return errors.New("a run cannot work: see FAIL above")
	case count[Warn] > 0:
		fmt.Fprintf(w, "Runs work here; %s above would make their figures less certain.\n", console.Counted(count[Warn], "warning"))
	default:
		fmt.Fprintln(w, "Runs work here.")
	}
	return nil
}

// FewProcessors is how many CPUs a run needs: one each for generator, application, proxy and everything else.
// With fewer, doctor warns.
const FewProcessors = 4
