package page

import (
	"math"
	"slices"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/result"
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
			course := memoryCourse(&records[i], p.Planes[0])
			if len(course) < 2 || !grows && len(course) < longMemory {
				continue
			}
			all = append(all, memory{records[i].Treatment, records[i].Block, p.Title, course})
			points += len(course)
		}
	}
	return all
}

// memoryCourse adds up the tasks of a plane. It is empty if one of them was not read as often as the others.
func memoryCourse(r *result.Record, plane metric.Plane) (course [][2]float64) {
	for _, t := range r.Tasks {
		switch {
		case t.Plane != plane:
			continue
		case course == nil:
			course = make([][2]float64, len(t.Memory))
		case len(course) != len(t.Memory):
			return nil
		}
		for i, m := range t.Memory {
			course[i][0] = math.Round(m.Seconds*100) / 100
			course[i][1] += float64(m.RSS) / (1 << 20)
		}
	}
	return course
}
