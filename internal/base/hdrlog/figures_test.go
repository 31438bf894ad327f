package hdrlog

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

var quantileValues = []float64{0.5, 0.9, 0.99, 0.999, 0.9999}

// likeTheLibrary holds the figures of a sum to those of the library's histogram.
func likeTheLibrary(t *testing.T, s *Sum) {
	t.Helper()
	h := s.Histogram()
	if s.Total() != h.TotalCount() {
		t.Errorf("%+v: %d values, the library has %d", s.geometry, s.Total(), h.TotalCount())
	}
	if s.Total() == 0 {
		return
	}
	v := s.Figures(quantileValues)
	if v.Mean != h.Mean() || v.Max != h.Max() {
		t.Errorf("%+v: mean %v, maximum %d; the library has %v, %d", s.geometry, v.Mean, v.Max, h.Mean(), h.Max())
	}
	for i, q := range quantileValues {
		if want := h.ValueAtPercentile(100 * q); v.At[i] != want {
			t.Errorf("%+v: quantile %v is %d, the library has %d", s.geometry, q, v.At[i], want)
		}
	}
}

// Figures are the library's in every geometry, with few values and with many.
func TestFiguresAgreeWithTheLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for digits := range int32(6) {
		for _, lowest := range []int64{0, 1, 2, 3, 1000, 1024, 1 << 40} {
			for _, n := range []int{1, 2, 9, 500, 20_000} {
				t.Run(fmt.Sprintf("%d digits from %d, %d values", digits, lowest, n), func(t *testing.T) {
					s := &Sum{geometry: geometry{digits: digits, lowest: lowest, highest: 60e9 * max(lowest, 1), ratio: 1}, filled: true}
					most := random.Int64N(4000) + 1
					for range n {
						at := random.Int64N(most)
						if at >= int64(len(s.counts)) {
							s.grow(at + 1)
						}
						s.counts[at] += random.Int64N(1000)
					}
					if err := s.check(); err != nil {
						return // the counts are beyond this geometry
					}
					likeTheLibrary(t, s)
				})
			}
		}
	}
}

// The last value can be the last the geometry has.
func TestFiguresAtTheEndOfTheRange(t *testing.T) {
	h := hdrhistogram.New(1000, 60e9, 3)
	_ = h.RecordValues(60e9, 3)
	counts := h.Export().Counts
	s := &Sum{geometry: geometry{digits: 3, lowest: 1000, highest: 60e9, ratio: 1}, counts: counts, filled: true}
	likeTheLibrary(t, s)
}

// Freed sums are empty when reused.
func TestSumsAreEmptyAgain(t *testing.T) {
	text, _ := writeTestLog(t, 4, relative)
	path := logFile(t, text)
	for range 3 {
		all, err := ReadFile(path, Window{0, 10}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := total(all)
		all.Free()
		part, err := ReadFile(path, Window{2, 3}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := total(part); got == 0 || got >= n {
			t.Errorf("%d values in one second, %d in all", got, n)
		}
		part.Free()
	}
}
