package analysis

import "math"

// Figures of a sum, worked out of its counts in one go. The library makes a copy
// of 200 KiB first, walks it anew for the mean, the maximum and each quantile, and
// works out at each step what few steps need. A test holds the figures to the
// library's, to the last bit.

// total is how many values there are.
func (s *sum) total() (n int64) {
	if s == nil {
		return 0
	}
	for _, c := range s.counts {
		n += c
	}
	return n
}

// values are figures of a sum that is not empty, in its unit.
type values struct {
	mean float64
	max  int64
	at   []int64 // as the quantiles that were asked for
}

// values works out the figures; quantiles must ascend.
func (s *sum) values(quantiles []float64) values {
	total := s.total()
	v := values{at: make([]int64, 0, len(quantiles))}
	seen := int64(0)
	scale := s.geometry.scale()
	for i, c := range s.counts {
		if c == 0 {
			continue
		}
		lowest, size := scale.of(i)
		v.max = lowest + size - 1
		v.mean += float64(c) * float64(lowest+size>>1) / float64(total)
		seen += c
		for len(v.at) < len(quantiles) && seen >= rank(quantiles[len(v.at)], total) {
			v.at = append(v.at, v.max)
		}
	}
	return v
}

// rank is the how-manieth value a quantile is, as the library rounds it.
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

// of is the lowest value that is counted at the index, and how many there are.
func (s scale) of(index int) (lowest, size int64) {
	bucket, step := index>>s.half-1, index&(1<<s.half-1)+1<<s.half
	if bucket < 0 {
		bucket, step = 0, index
	}
	shift := s.unit + uint(bucket)
	return int64(step) << shift, 1 << shift
}
