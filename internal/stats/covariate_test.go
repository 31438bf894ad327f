package stats

import (
	"bytes"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/statstest"
)

// positions are the places of two of three treatments in six blocks: three rows of a Latin
// square and the same rows backwards, as a balanced order has them.
var positions = [][2]float64{{0, 1}, {1, 2}, {2, 0}, {2, 1}, {1, 0}, {0, 2}}

// placed is a machine whose readings grow with the place of a trial in the run, 0..1.
type placed struct {
	name  string
	slow  func(place float64) float64
	noise func(r *rand.Rand) float64
	used  [2]float64 // the share of experiments in which the positions may be used, at 12 blocks
}

func linear(share float64) func(float64) float64 {
	return func(place float64) float64 { return 1 + share*place }
}

func gaussian(sd float64) func(*rand.Rand) float64 {
	return func(r *rand.Rand) float64 { return sd * r.NormFloat64() }
}

var placedShapes = []placed{
	{"positions, no drift", linear(0), gaussian(2), [2]float64{0, 0.08}},
	{"positions, drift of 10 %", linear(0.1), gaussian(0.5), [2]float64{0.01, 1}},
	{"positions, drift of 40 %", linear(0.4), gaussian(1), [2]float64{0.3, 1}},
	{"positions, drift of 40 %, heavy tails", linear(0.4), func(r *rand.Rand) float64 { return student5(r) }, [2]float64{0.2, 1}},
	{"positions, drift of 10 % and back", func(place float64) float64 { return 1 + 0.1*math.Sin(math.Pi*place) }, gaussian(1), [2]float64{0, 1}},
}

// The interval keeps its coverage whether the positions are of use or not, the choice
// between the two included. The truth is the mean difference over the run.
func TestCoverageWithPositions(t *testing.T) {
	const all = 10000
	experiments, low := statstest.Rounds(t, 2000, all), 0.925 // balanced positions make intervals conservative: no upper bound
	if experiments < all {
		low = 0.92
	}
	documented := statstest.Coverage(t)
	for _, s := range placedShapes {
		for column, blocks := range []int{6, 12, 18} {
			r := rand.New(rand.NewPCG(20261124, uint64(blocks)))
			covered, used, rawHalf, half := 0, 0, 0.0, 0.0
			for range experiments {
				rows := r.Perm(len(positions))
				x, y, z := make([]float64, blocks), make([]float64, blocks), make([]float64, blocks)
				truth := 0.0
				for b := range blocks {
					at := positions[rows[b%len(rows)]]
					place := func(p float64) float64 { return (float64(3*b) + p) / float64(3*blocks-1) }
					x[b], y[b], z[b] = 110*s.slow(place(at[0]))+s.noise(r), 100*s.slow(place(at[1]))+s.noise(r), at[0]-at[1]
					truth += 10 * s.slow(place(1)) / float64(blocks)
				}
				result := PairedDifference(x, y, 0.95)
				before, _ := result.HalfWidth()
				if a, use := PositionedDifference(x, y, z, 0.95); use {
					used, result = used+1, a.Result
				}
				after, _ := result.HalfWidth()
				rawHalf, half = rawHalf+before, half+after
				if !result.Excludes(truth) {
					covered++
				}
			}
			got, share := float64(covered)/float64(experiments), float64(used)/float64(experiments)
			t.Logf("%-40s %2d blocks: covers %.3f, used in %.3f, ±%.2f instead of ±%.2f", s.name, blocks, got, share, half/float64(experiments), rawHalf/float64(experiments))
			checkDocumented(t, documented[s.name], column, got, experiments)
			if got < low {
				t.Errorf("%s, %d blocks: a 95 %% interval covers %.3f", s.name, blocks, got)
			}
			if blocks == 12 && (share < s.used[0] || share > s.used[1]) {
				t.Errorf("%s: the positions are used in %.3f of the experiments", s.name, share)
			}
		}
	}
}

// The regression against the certified values of NIST's linear reference set Norris.
func TestAdjustNorris(t *testing.T) {
	pairs := []float64{0.1, 0.2, 338.8, 337.4, 118.1, 118.2, 888.0, 884.6, 9.2, 10.1, 228.1, 226.5, 668.5, 666.3, 998.5, 996.3, 449.1, 448.6,
		778.9, 777.0, 559.2, 558.2, 0.3, 0.4, 0.1, 0.6, 778.1, 775.5, 668.8, 666.9, 339.3, 338.0, 448.9, 447.5, 10.8, 11.6, 557.7, 556.0, 228.3, 228.1,
		998.0, 995.8, 888.8, 887.6, 119.6, 120.2, 0.3, 0.3, 0.6, 0.3, 557.6, 556.8, 339.3, 339.1, 888.0, 887.2, 998.5, 999.0, 778.9, 779.0, 10.2, 11.1,
		117.6, 118.3, 228.9, 229.2, 668.4, 669.1, 449.2, 448.9, 0.2, 0.5}
	var x, z []float64
	for i := 0; i < len(pairs); i += 2 {
		x, z = append(x, pairs[i]), append(z, pairs[i+1])
	}
	a, _ := adjust(x, z, 0.95, 1)
	near(t, "intercept", a.Estimate, -0.262323073774029, 1e-9)
	near(t, "slope", a.Coefficient, 1.00211681802045, 1e-11)
	near(t, "standard error of the intercept", a.SE, 0.232818234301152, 1e-9)
}

// recordedSlices are the slices of a recorded run of examples/quickstart.yaml (docs/pictures/quickstart.tar.gz): the data plane of
// Envoy, and the speed by the CPU of application and load generator of its three treatments, by block.
func recordedSlices(t *testing.T) (blocks [][]Reading) {
	lines := must.Get(csv.NewReader(bytes.NewReader(must.Get(os.ReadFile("testdata/quickstart-slices.csv"))(t))).ReadAll())(t)
	for _, line := range lines[1:] {
		number := func(i int) float64 { return must.Get(strconv.ParseFloat(line[i], 64))(t) }
		if b := int(number(0)); b > len(blocks) {
			blocks = append(blocks, nil)
		}
		blocks[len(blocks)-1] = append(blocks[len(blocks)-1], Reading{Treatment: number(1), Speed: number(2)})
	}
	return blocks
}

// Deviations of deployments are planted into blocks of a recorded run, and a share of each passes into the speed. A treatment
// whose cost differs from block to block is not adjusted away: the interval of the mean without deviations keeps its coverage.
// The measured share is 0.03 [-0.04, 0.11].
func TestPlantedDeviations(t *testing.T) {
	rounds, recorded := statstest.Rounds(t, 800, 8000), recordedSlices(t)
	typical := 0.0 // CPU that shows the speed, µs
	for _, rows := range recorded {
		for _, row := range rows {
			typical += math.Exp(row.Speed) / float64(12*len(recorded))
		}
	}
	for _, sd := range []float64{0.01, 0.02, 0.04, 0.1} {
		for _, share := range []float64{-0.04, 0, 0.03, 0.11, mostPassed, 0.5} {
			for _, blocks := range []int{5, 8, 13, 20} {
				r := rand.New(rand.NewPCG(20261129, uint64(blocks)))
				covered, half := 0.0, [2]float64{}
				for range rounds {
					cost, none, truth := make([]float64, blocks), make([]float64, blocks), 0.0
					speeds, readings := make([]float64, blocks), make([][]Reading, blocks)
					for b := range blocks {
						deviation := sd * r.NormFloat64()
						for _, row := range recorded[r.IntN(len(recorded))] {
							truth += row.Treatment / float64(12*blocks)
							row.Treatment *= 1 + deviation
							row.Speed = math.Exp(row.Speed)/typical + share*deviation
							speeds[b] += row.Speed / 12
							cost[b] += row.Treatment / 12
							readings[b] = append(readings[b], row)
						}
					}
					result := PairedDifference(cost, none, 0.95)
					before, _ := result.HalfWidth()
					if at, ok := DifferencesAtMeanSpeed(cost, none, speeds, readings); ok {
						if _, enough := Narrower(at.Interval(0.95).Interval, result.Interval); enough {
							result = at.Interval(0.95)
						}
					}
					after, _ := result.HalfWidth()
					half[0], half[1] = half[0]+before/float64(rounds), half[1]+after/float64(rounds)
					if !result.Excludes(truth) {
						covered += 1 / float64(rounds)
					}
				}
				t.Logf("deviations of %v, share %v, %d blocks: covers %.3f, ±%.2f for ±%.2f", sd, share, blocks, covered, half[1], half[0])
				if share <= mostPassed && covered < 0.93-3*math.Sqrt(0.05*0.95/float64(rounds)) {
					t.Errorf("deviations of %v, share %v, %d blocks: covers %.3f", sd, share, blocks, covered)
				}
				if sd == 0.01 && half[1] > 0.75*half[0] {
					t.Errorf("share %v, %d blocks: ±%.2f for ±%.2f is hardly narrower", share, blocks, half[1], half[0])
				}
			}
		}
	}
}
