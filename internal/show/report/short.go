package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/printable"
)

// Sizes of a text, in lines.
const (
	shortLines   = 40 // of a report without --all
	screenLines  = 24 // of a terminal
	openingLines = 16 // of the result before the first table
	fewLines     = 6  // of a section, below which a part of it is left out
	fewWarnings  = 4  // of the section of warnings, below which it is left out
)

// Ranks of sections. The differences are the result: they are in every short text, after gates and changes.
const (
	differencesRank = 0
	warningsRank    = 3
)

type shortSection struct {
	rank  int // the room goes to the lowest ranks first
	most  int // lines
	write func(text)
}

// sectionsOf are the sections of the short text, in its order. Those with the rows that the first result rests on have
// room before the warnings. Over several levels the means come before the treatments, the first of which would all be
// baselines.
func sectionsOf(r *answer.Report) []shortSection {
	figures := []shortSection{{4, 14, treatmentsSection}, {differencesRank, 14, differencesSection}}
	if sweeps(r) > 0 {
		figures = []shortSection{{differencesRank, 14, differencesSection}, {2, 20, treatmentsSection}}
	}
	return slices.Concat([]shortSection{
		{1, 20, byHandSection}, {differencesRank, 14, decisionSection}, {1, 14, trendsSection}, {1, 20, costSection}, {1, 20, ladderSection}, {2, 14, expectationsSection}, {1, 14, failuresSection}, {differencesRank, 18, changesSection}, {2, 10, changePartsSection}, {2, 12, controlTimesSection}, {2, 14, startsSection}, {1, 24, backgroundSlopesSection}, {2, 14, boundariesSection},
	}, figures, []shortSection{{6, 14, configurationsSection}, {6, 14, headerSection}, {warningsRank, 8, warningsSection}})
}

// WriteAnswer writes the lines of [Answer], folded, and the table of differences.
func WriteAnswer(w io.Writer, r *answer.Report, o Options) error {
	p := newPage(o, false, "")
	p.short = true
	t := text{p, view{r: r, o: o, label: newLabels(r), short: true}}
	writeAnswer(t, Claims(r))
	differencesSection(t)
	return p.writeTo(w, "answer")
}

// writeShort writes the result, and as much of the sections as there is room for.
func writeShort(w io.Writer, r *answer.Report, o Options) error {
	v := view{r: r, o: o, label: newLabels(r), short: true}
	lines := func(write func(text)) [][]byte {
		p := newPage(o, false, "")
		p.short = true
		write(text{p, v})
		if p.out.Len() == 0 {
			return nil
		}
		return bytes.Split(bytes.Trim(p.out.Bytes(), "\n"), []byte("\n"))
	}
	body := cut(lines(answerSection), openingLines, fewLines)
	if load := LoadLine(r); load != "" && len(body) > 0 {
		body = append(body, lines(func(t text) { t.page.styled(faint, func() { t.page.prose(load) }) })...)
	}
	closing := lines(closingSection)
	more := func(what string) [][]byte {
		return lines(func(t text) {
			t.page.prose("More with --all: " + what + "what the figures mean.")
		})
	}
	rest := more("every metric, the noise, and ")
	complete := rest
	if n := len(r.Warnings); n > 0 {
		rest = more(printable.Counted(n, "warning") + ", every metric, the noise, ")
	}
	room := shortLines - len(body) - len(closing) - len(rest) - 2 // two empty lines
	sections := sectionsOf(r)
	parts := make([][][]byte, len(sections))
	for rank := differencesRank; rank <= 6; rank++ {
		for i, s := range sections {
			if s.rank != rank {
				continue
			}
			few := fewLines
			switch s.rank {
			case warningsRank:
				few = fewWarnings
			case differencesRank:
				few = 0
			}
			parts[i] = cut(lines(s.write), min(s.most, room-1), few)
			if len(parts[i]) > 0 {
				room -= len(parts[i]) + 1
			}
			if s.rank == warningsRank && len(parts[i]) > 0 {
				rest = complete
			}
		}
	}
	for _, part := range parts {
		if len(part) > 0 {
			body = append(append(body, nil), part...)
		}
	}
	body = append(append(body, nil), rest...)
	if len(body) > screenLines {
		body = append(append(body, nil), closing...)
	}
	p := newPage(o, false, "")
	p.out.Write(bytes.TrimLeft(bytes.Join(body, []byte("\n")), "\n"))
	p.line("")
	return p.writeTo(w, "report")
}

// cut returns the first n lines, the last of them the number of lines left out. It returns none of fewer than few lines.
func cut(lines [][]byte, n, few int) [][]byte {
	switch {
	case len(lines) <= n:
		return lines
	case n < max(few, 2):
		return nil
	}
	kept := slices.Clone(lines[:n-1])
	if len(kept[n-2]) == 0 {
		kept = kept[:n-2]
	}
	return append(kept, fmt.Appendf(nil, "  … %s with --all", printable.Counted(len(lines)-len(kept), "more line")))
}

// closingSection repeats the result at the end of a long text. A short text has the first one only.
func closingSection(t text) {
	claims := Claims(t.view.r)
	if len(claims) == 0 {
		return
	}
	t.page.line("")
	rest := claims[len(firstResult(claims)):]
	if t.view.short {
		rest = nil
	}
	writeAnswer(t, append([]Claim{inShort(claims)}, rest...))
}
