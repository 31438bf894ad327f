package runner

import (
	"time"

	"github.com/tare-mesh/tare/internal/result"
	"github.com/tare-mesh/tare/internal/run/platform"
)

// maxMemoryReadings bounds the readings of a task's resident memory in the record.
const maxMemoryReadings = 64

// memoryTraces has the readings of each task's resident memory since it was deployed, by task ID.
type memoryTraces map[string]*memoryTrace

// memoryTrace is a series of readings that are equally far apart. When it is full, every second one is dropped.
type memoryTrace struct {
	readings []result.Reading
	stride   int // readings that were made for each one that is kept
	made     int
}

// add adds readings of resident memory. Other readings have none.
func (m memoryTraces) add(readings map[string]result.Reading) {
	for id, r := range readings {
		if r.RSS <= 0 {
			continue
		}
		if m[id] == nil {
			m[id] = &memoryTrace{stride: 1}
		}
		m[id].add(r)
	}
}

// add keeps the reading if its turn is due. Twice as many are kept as the record has, because the warm-up and the tail
// are left out later.
func (t *memoryTrace) add(r result.Reading) {
	if t.made++; t.made%t.stride != 0 {
		return
	}
	t.readings = append(t.readings, r)
	if len(t.readings) < 2*maxMemoryReadings {
		return
	}
	t.readings, t.stride = everySecond(t.readings), 2*t.stride
}

// keep puts the readings between the two edges into the usage of each task. The last reading of an interleaved task has no
// CPU: it was divided among the slices.
func (m memoryTraces) keep(tasks []result.TaskUsage, interleaved bool) {
	for i := range tasks {
		u := &tasks[i]
		if t := m[u.ID]; t != nil && u.Missing == "" && !u.Ended {
			u.Memory = t.between(u.Start.At, u.End)
			if u.End.Peak > 0 { // the kernel's peak begins again if a reload executes the program again, as HAProxy's does
				u.End.Peak = max(u.End.Peak, u.Start.Peak)
				for _, m := range u.Memory {
					u.End.Peak = max(u.End.Peak, m.RSS)
				}
			}
			if n := len(u.Memory); n > 0 && interleaved {
				u.Memory[n-1].CPU = 0
			}
		}
	}
}

// between returns the readings from the start to the end of the measure phase, with the last one.
func (t *memoryTrace) between(start time.Time, end result.Reading) []result.MemoryReading {
	var inside []result.Reading
	for _, r := range t.readings {
		if !r.At.Before(start) && r.At.Before(end.At) {
			inside = append(inside, r)
		}
	}
	for len(inside) >= maxMemoryReadings {
		inside = everySecond(inside)
	}
	if end.RSS > 0 {
		inside = append(inside, end)
	}
	var all []result.MemoryReading
	for _, r := range inside {
		all = append(all, result.MemoryReading{Seconds: r.At.Sub(start).Seconds(), RSS: r.RSS, CPU: r.CPU})
	}
	return all
}

func everySecond(readings []result.Reading) (kept []result.Reading) {
	for i := 1; i < len(readings); i += 2 {
		kept = append(kept, readings[i])
	}
	return kept
}

// memoryByPlane adds up the resident memory of readings, MiB. It is nil without any.
func memoryByPlane(tasks []platform.Task, readings map[string]result.Reading) (sums map[string]float64) {
	for _, t := range tasks {
		if r := readings[t.ID]; r.RSS > 0 {
			if sums == nil {
				sums = map[string]float64{}
			}
			sums[string(t.Plane)] += float64(r.RSS) / (1 << 20)
		}
	}
	return sums
}
