package page

import (
	"slices"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
)

// memory is the resident memory of a plane of one trial over its measure phase.
type memory struct {
	Treatment string       `json:"treatment"`
	Block     int          `json:"block"`
	Plane     string       `json:"plane"`  // in words
	Points    [][2]float64 `json:"points"` // seconds, MiB
}

// longMemory is the number of readings from which the course of memory is drawn even where it does not grow.
const longMemory = 30

// memoryOf reads the first blocks. Where memory is steady in a short phase, its course says no more than its figure.
func memoryOf(s Source) (all []memory) {
	if len(s.Report.Trends) > 0 {
		return nil // the figure of the soak has it
	}
	records, err := s.Dir.Records()
	if err != nil {
		return nil // the report has the figures
	}
	grows := slices.ContainsFunc(s.Report.Warnings, func(w figures.Warning) bool { return w.Code == answer.MemoryGrows })
	points := 0
	for i := range records {
		if !records[i].Valid || points > mostPoints/2 {
			continue
		}
		for _, p := range metric.Parts() {
			if len(p.Planes) > 1 || !slices.Contains(metric.IdleParts, p.Name) {
				continue
			}
			course := figures.MemoryCourse(&records[i], p)
			if len(course) < 2 || !grows && len(course) < longMemory {
				continue
			}
			all = append(all, memory{records[i].Treatment, records[i].Block, p.Title, course})
			points += len(course)
		}
	}
	return all
}
