package page

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/tare-mesh/tare/internal/base/printable"
	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/show/report"
)

// acrossContent is the data of the figures of two runs.
type acrossContent struct {
	head
	Across *compare.Across `json:"across"`
	Words  report.Words    `json:"words"`
}

// AcrossData are the data of the figure of two runs compared as JSON, for the scripts.
func AcrossData(a *compare.Across) ([]byte, error) {
	return dataOf(acrossContentOf(a.New.Experiment, a))
}

// WriteAcross writes the page of two runs compared.
func WriteAcross(w io.Writer, a *compare.Across) error {
	base := filepath.Base(a.Base.Dir)
	bases := []compare.Side{a.Base}
	if len(a.BaseRuns) > 0 {
		base, bases = printable.Counted(len(a.BaseRuns), "run"), a.BaseRuns
	}
	name := fmt.Sprintf("%s: %s against %s", a.New.Experiment, filepath.Base(a.New.Dir), base)
	answer := report.AcrossAnswer(a)
	d := document{Name: name, Headline: answer[0], Answer: answer, Band: acrossBand(a), Schema: compare.AcrossSchema, Tare: a.New.Setup.Tare, Command: "tare compare"}
	for _, w := range a.Warnings {
		d.Warnings = append(d.Warnings, warning{Code: w.Code, Message: w.Message, Hint: w.Hint})
	}
	for i, side := range append(bases[:len(bases):len(bases)], a.New) {
		name := "Base"
		if i == len(bases) {
			name = "New"
		}
		d.Provenance = append(d.Provenance, entry{Name: name, Text: side.Dir, Code: true}, entry{Name: "", Text: machineOf(side.Setup)})
	}
	for _, x := range append(a.Obstacles[:len(a.Obstacles):len(a.Obstacles)], a.Distinctions...) {
		d.Provenance = append(d.Provenance, entry{Name: "Differs", Text: x.String()})
	}
	return d.fill(w, acrossContentOf(name, a), func(w io.Writer) error {
		return report.AcrossForms(report.Options{All: true})[0].Write(w, a)
	})
}

func acrossContentOf(name string, a *compare.Across) acrossContent {
	return acrossContent{headOf(name), a, report.AcrossWords(a)}
}

func machineOf(s compare.Setup) string {
	parts := []string{s.CPUModel}
	if s.CPUs > 0 {
		parts = append(parts, printable.Counted(s.CPUs, "CPU"))
	}
	if s.FirstStart != nil {
		parts = append(parts, s.FirstStart.UTC().Format("2 January 2006 15:04 MST"))
	}
	return joined(append(parts, strings.TrimSpace(s.OS+" "+s.Kernel), strings.TrimSpace("tare "+s.Tare))...)
}

func acrossBand(a *compare.Across) []card {
	var cards []card
	base, name := a.Base.Count, "the base run"
	if len(a.BaseRuns) > 0 {
		base, name = compare.Count{}, printable.Counted(len(a.BaseRuns), "base run")
		for _, r := range a.BaseRuns {
			base.Used, base.Planned, base.Blocks = base.Used+r.Count.Used, base.Planned+r.Count.Planned, base.Blocks+r.Count.Blocks
		}
	}
	for _, side := range []struct {
		name string
		n    compare.Count
	}{{name, base}, {"the new run", a.New.Count}} {
		cards = append(cards, card{Good: side.n.Used == side.n.Planned, Title: fmt.Sprintf("%d of %s of %s", side.n.Used, printable.Counted(side.n.Planned, "trial"), side.name), Text: printable.Counted(side.n.Blocks, "block")})
	}
	conditions := card{Good: len(a.Obstacles) == 0, Title: "Same conditions", Text: "machine, kernel, load, phases, topology, mesh definition"}
	if !conditions.Good {
		conditions.Title, conditions.Text, conditions.Link = printable.Counted(len(a.Obstacles), "condition")+" changed", "any of them may be the cause", "#provenance"
	}
	cards = append(cards, conditions)
	gates := map[compare.Outcome]int{}
	for _, g := range a.Gates {
		gates[g.Outcome]++
	}
	if n := len(a.Gates); n > 0 {
		cards = append(cards, card{Good: gates[compare.Breached] == 0, Title: fmt.Sprintf("%d of %d gate checks breached", gates[compare.Breached], n), Text: fmt.Sprintf("%d undecided", gates[compare.Undecided])})
	}
	return append(cards, warningCard(len(a.Warnings)))
}

// historyContent is the data of the figure of a series of runs.
type historyContent struct {
	head
	History *compare.History     `json:"history"`
	Series  []report.SeriesWords `json:"series"`
}

// HistoryData are the data of the figure of a series of runs as JSON, for the scripts.
func HistoryData(h *compare.History) ([]byte, error) {
	return dataOf(historyContent{headOf("history"), h, report.HistoryWords(h)})
}

func warningCard(n int) card {
	if n == 0 {
		return card{Good: true, Title: "No warnings"}
	}
	return card{Title: printable.Counted(n, "warning"), Text: "with causes and fixes", Link: "#warnings"}
}
