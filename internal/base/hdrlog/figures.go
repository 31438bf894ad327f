package hdrlog

import "math"

// Figures of a sum come from one pass over its counts. The library copies 200 KiB
// first and walks the copy for the mean, the maximum and each quantile. A test
// compares the figures with the library's, to the last bit.

// Total is the number of values.
func (s *Sum) Total() (n int64) {
	if s == nil {
		return 0
	}
	for _, c := range s.counts {
		n += c
	}
	return n
}

// Figures are the statistics of a nonempty sum, in its unit.
type Figures struct {
	Mean float64
	Max  int64
	At   []int64 // one a quantile
}

// Figures computes the figures of a sum. Quantiles must ascend.
func (s *Sum) Figures(quantiles []float64) Figures {
	total := s.Total()
	v := Figures{At: make([]int64, 0, len(quantiles))}
	seen := int64(0)
	scale := s.geometry.scale()
	for i, c := range s.counts {
		if c == 0 {
			continue
		}
		lowest, size := scale.of(i)
		v.Max = lowest + size - 1
		v.Mean += float64(c) * float64(lowest+size>>1) / float64(total)
		seen += c
		for len(v.At) < len(quantiles) && seen >= rank(quantiles[len(v.At)], total) {
			v.At = append(v.At, v.Max)
		}
	}
	return v
}

// rank is the ordinal of the value at a quantile, rounded as the library does.
func rank(q float64, total int64) int64 {
	percentile := math.Min(100*q, 100)
	r := (percentile/100)*float64(total) + 0.5
	switch {
	case !(r >= 1):
		return 1
	case r >= float64(total):
		return total
	}
	return int64(r)
}

// scale turns the index of a count into values: powers of two.
type scale struct {
	unit uint // of the smallest step
	half uint // of the number of steps up to the next larger step
}

// scale of a geometry that was checked, after HdrHistogram's own definition.
func (g geometry) scale() scale {
	steps := math.Ceil(math.Log2(2 * math.Pow10(int(g.digits))))
	return scale{
		unit: uint(math.Floor(math.Log2(float64(max(g.lowest, 1))))),
		half: uint(math.Max(steps, 1)) - 1,
	}
}

// of is the lowest value counted at the index, and the number of values there.
func (s scale) of(index int) (lowest, size int64) {
	bucket, step := index>>s.half-1, index&(1<<s.half-1)+1<<s.half
	if bucket < 0 {
		bucket, step = 0, index
	}
	shift := s.unit + uint(bucket)
	return int64(step) << shift, 1 << shift
}
