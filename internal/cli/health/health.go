// Package health prints the checks of tare doctor.
package health

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/internal/base/printable"
)

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

func (v Verdict) MarshalText() ([]byte, error) { return []byte(strings.ToLower(words[v])), nil }

// WarnIf warns if bad is true.
func WarnIf(bad bool, format string, args ...any) Finding {
	f := Found(fmt.Sprintf(format, args...))
	if bad {
		f.Verdict = Warn
	}
	return f
}

// Finding is the outcome of one check.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Hint    string  `json:"hint,omitempty"` // replaces the check's own
}

type Row struct {
	Name string `json:"name"`
	Finding
}

func Found(detail string) Finding { return Finding{Detail: detail} }

// Write prints a line for each check that needs attention, with its hint, one for all that
// passed, and a conclusion. With all it prints a line for each check. It returns an error if
// a run cannot work.
func Write(w io.Writer, rows []Row, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	count := map[Verdict]int{}
	passed := map[Verdict][]string{}
	for _, r := range rows {
		count[r.Verdict]++
		if !all && (r.Verdict == OK || r.Verdict == Absent) {
			passed[r.Verdict] = append(passed[r.Verdict], printable.Line(r.Name))
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", r.Verdict, printable.Line(r.Name), printable.Text(r.Detail))
		if r.Verdict != OK && r.Hint != "" {
			fmt.Fprintf(t, "\t\thint: %s\n", printable.Text(r.Hint))
		}
	}
	writeNames(t, OK, "passed", passed[OK])
	writeNames(t, Absent, "optional", passed[Absent])
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	switch {
	case count[Fail] > 0:
		return errors.New("a run cannot work: see FAIL above")
	case count[Warn] > 0:
		fmt.Fprintf(w, "Runs work here; %s above would make their figures less certain.\n", printable.Counted(count[Warn], "warning"))
	default:
		fmt.Fprintln(w, "Runs work here.")
	}
	if len(passed) > 0 {
		fmt.Fprintln(w, "`tare doctor --all` prints every check.")
	}
	return nil
}

// namesWidth is the width of a list of names, in columns.
const namesWidth = 70

// writeNames lists the names of checks over as many lines as they need.
func writeNames(w io.Writer, v Verdict, title string, names []string) {
	if len(names) == 0 {
		return
	}
	first := v.String() + "\t" + title
	for line := range strings.SplitSeq(ansi.Wordwrap(strings.Join(names, ", "), namesWidth, ""), "\n") {
		fmt.Fprintf(w, "%s\t%s\n", first, line)
		first = "\t"
	}
}

// FewProcessors is how many CPUs a run needs: one each for generator, application, proxy and everything else.
// With fewer, doctor warns.
const FewProcessors = 4
