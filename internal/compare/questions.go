package compare

import (
	"math"
	"slices"
	"strings"

	"github.com/tare-mesh/tare/internal/base/lists"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/internal/figures"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// Question is one change of factors against its baseline, such as a mesh against none. The
// headline tests of all questions are one family. Where other factors vary, its treatments are
// the levels of one question: the mean over the levels comes first, and the levels of a
// metric follow only if its mean differs. See [estimator.headlines].
type Question struct {
	ID         string       `json:"id"`      // "mesh=envoy against mesh=none"
	Factors    plan.Factors `json:"factors"` // in which the treatments differ from their baselines
	Against    plan.Factors `json:"against"`
	Treatments []string     `json:"treatments"`
	Tests      int          `json:"tests"`            // headline tests of the first step, of all questions
	Pooled     []Pooled     `json:"pooled,omitempty"` // over the treatments, where there are several
}

// Pooled is the mean over the treatments of a question, for one metric. The block is the
// observation: its value is the mean over the treatments of the differences, or of the
// logarithms of the ratios. P comes from one test of these means. It does not combine the p-values of the levels,
// whose adjusted ones hold only where the mean is shown: see headlines.
type Pooled struct {
	Metric     string          `json:"metric"`
	Unit       string          `json:"unit"`
	Difference *stats.Interval `json:"difference,omitempty"`
	Ratio      *stats.Interval `json:"ratio,omitempty"`
	Levels     int             `json:"levels"`
	N          int             `json:"n"` // blocks with every treatment and baseline
	P          *float64        `json:"p,omitempty"`
	OnRatio    bool            `json:"on_ratio,omitempty"`
	PAdjusted  *float64        `json:"p_adjusted,omitempty"` // Holm, over the metrics of all questions
	Verdict    Verdict         `json:"verdict"`
	Smallest   *Smallest       `json:"smallest,omitempty"`
	// Heterogeneity is the p-value of "the same at every level".
	Heterogeneity *float64 `json:"heterogeneity_p,omitempty"`
	// Speed: Difference is at the mean speed of the machine, as the differences of the levels are.
	Speed *SpeedAdjusted `json:"speed,omitempty"`
}

// pooled is a mean over treatments with its test.
type pooled struct {
	Pooled
	test stats.Result
}

// asked is a question with its tests.
type asked struct {
	Question
	pooled []pooled
}

// questions groups the comparisons. Runs without pairs have no questions: their comparisons
// stay in the families of the run.
func (run *Run) questions(cs []compared, byTreatment map[string][]figures.Measured) []asked {
	if run.estimator.method != Paired {
		return nil
	}
	var all []asked
	members := map[string][]plan.Treatment{}
	planned := run.Plan.ByID()
	for _, t := range run.Plan.Treatments {
		if t.Baseline == "" || t.Control {
			continue
		}
		q := questionOf(t, planned[t.Baseline])
		if members[q.ID] == nil {
			all = append(all, asked{Question: q})
		}
		members[q.ID] = append(members[q.ID], t)
	}
	ids := map[string]string{}
	for i := range all {
		q := &all[i]
		for _, t := range members[q.ID] {
			q.Treatments = append(q.Treatments, t.ID)
			ids[t.ID] = q.ID
		}
		if len(q.Treatments) > 1 {
			q.pooled = run.estimator.pool(members[q.ID], byTreatment)
		}
	}
	for i := range cs {
		if !cs[i].Control {
			cs[i].Question = ids[cs[i].Treatment]
		}
	}
	return all
}

// questionOf is the question of one treatment: the factors in which it differs from its baseline.
func questionOf(t, base plan.Treatment) Question {
	q := Question{Factors: plan.Factors{}, Against: plan.Factors{}}
	var is, was []string
	for f, v := range t.Factors {
		if b := base.Factors[f]; b != v {
			q.Factors[f], q.Against[f] = v, b
			is, was = append(is, f+"="+LevelText(v)), append(was, f+"="+LevelText(b))
		}
	}
	slices.Sort(is)
	slices.Sort(was)
	q.ID = strings.Join(is, ", ") + " against " + strings.Join(was, ", ")
	return q
}

// pool estimates the mean over the treatments, for each headline metric known in all.
func (x *estimator) pool(treatments []plan.Treatment, byTreatment map[string][]figures.Measured) []pooled {
	type sides struct{ treatment, baseline map[int]figures.Measured }
	levels := lists.Map(treatments, func(t plan.Treatment) sides {
		return sides{byBlock(byTreatment[t.ID]), byBlock(byTreatment[t.Baseline])}
	})
	var out []pooled
	for _, name := range metric.Headlines() {
		m, _ := metric.Lookup(name)
		var differences, ratios [][]float64 // by block
		compared := make([]pairs, len(levels))
		for block := 1; block <= x.blocks; block++ {
			var d, r, ts, bs []float64
			for _, l := range levels {
				t, ok1 := l.treatment[block].Metrics[name]
				b, ok2 := l.baseline[block].Metrics[name]
				if !ok1 || !ok2 {
					break
				}
				ts, bs, d = append(ts, t), append(bs, b), append(d, t-b)
				r = append(r, math.Log(t/b)) // NaN or infinite: there is no ratio
			}
			if len(d) == len(levels) {
				differences, ratios = append(differences, d), append(ratios, r)
				for i := range compared {
					p := &compared[i]
					p.treatment, p.baseline, p.blocks = append(p.treatment, ts[i]), append(p.baseline, bs[i]), append(p.blocks, block)
				}
			}
		}
		if len(differences) == 0 {
			continue
		}
		p := x.mean(m, differences, ratios)
		if !p.OnRatio {
			x.pooledAtMeanSpeed(&p, treatments, compared)
		}
		out = append(out, p)
	}
	return out
}

func (x *estimator) mean(m metric.Metric, differences, ratios [][]float64) pooled {
	p := pooled{Pooled: Pooled{Metric: m.Name, Unit: m.Unit, Levels: len(differences[0]), N: len(differences), Verdict: Insufficient}}
	d := stats.MeanInterval(lists.Map(differences, stats.Mean), x.confidence)
	p.test, p.Difference, p.P = d, &d.Interval, d.P
	rows := differences
	if r := stats.GeometricMean(lists.Map(ratios, stats.Mean), x.confidence); r.Why != stats.NotFinite {
		p.Ratio = &r.Interval
		if m.Judged == metric.ByRatio && r.P != nil {
			p.P, p.OnRatio, p.test, rows = r.P, true, r, ratios
		}
	}
	if p.test.Why == stats.NoSpread {
		if p.Verdict = NotShown; p.test.Estimate != 0 {
			p.P = new(stats.ExactEqual(p.N))
		}
	}
	p.Heterogeneity = stats.Heterogeneity(rows)
	return p
}

// adjust corrects the p-values for their number, in each family separately, and gives
// verdicts. It returns the numbers of tests.
func (x *estimator) adjust(cs []compared, questions []asked) map[Family]int {
	sizes := map[Family]int{}
	families := map[[2]string][]int{} // by question and family
	var order [][2]string
	for i, c := range cs {
		if c.P == nil {
			continue
		}
		sizes[c.Family]++
		key := [2]string{c.Question, string(c.Family)}
		if families[key] == nil {
			order = append(order, key)
		}
		families[key] = append(families[key], i)
	}
	var steps []firstTest
	for _, key := range order {
		i := slices.IndexFunc(questions, func(q asked) bool { return q.ID == key[0] })
		if i >= 0 && key[1] == string(Headline) {
			steps = append(steps, firstTests(cs, families[key], &questions[i])...)
			continue
		}
		x.holm(cs, families[key], x.alpha(), 1, 0)
	}
	x.headlines(cs, steps)
	for i := range questions {
		questions[i].Tests = len(steps)
	}
	return sizes
}

// firstTest is a test of the first step: one headline metric of one question.
type firstTest struct {
	p      float64
	levels []int   // comparisons, one for each treatment of the question
	mean   *pooled // over the levels, nil with one level, or where no block has all
}

// firstTests are the first tests of the headline comparisons of one question, one for each metric.
func firstTests(cs []compared, family []int, q *asked) (steps []firstTest) {
	at := map[string]int{}
	for _, i := range family {
		name := cs[i].Metric
		if _, known := at[name]; !known {
			at[name] = len(steps)
			steps = append(steps, firstTest{})
		}
		s := &steps[at[name]]
		s.levels = append(s.levels, i)
	}
	for i := range steps {
		s := &steps[i]
		name := cs[s.levels[0]].Metric
		if at := slices.IndexFunc(q.pooled, func(p pooled) bool { return p.Metric == name && p.P != nil }); at >= 0 {
			s.mean = &q.pooled[at]
			s.p = *s.mean.P
			continue
		}
		least := 1.0 // Bonferroni's test that all levels are equal; of one level its own
		for _, c := range s.levels {
			least = math.Min(least, *cs[c].P)
		}
		s.p = math.Min(1, least*float64(len(s.levels)))
	}
	return steps
}

// headlines gives the verdicts of the headline metrics of all questions. What the first lines of a report claim is one family:
// the first step is Holm's over the metrics of all questions, each by the mean over the levels of its question. A metric
// whose mean differs is selected. Its levels are a family, tested at the level times the share of metrics that are
// selected. This bounds the mean chance of a false claim over the selected families (Benjamini, Bogomolov, "Selective
// inference on multiple families of hypotheses", JRSS B 2014). Without any true difference
// the first step alone bounds the chance of every claim. An adjusted p-value of a level is divided by that share, so it
// is comparable with alpha, and not with the values of other questions.
func (x *estimator) headlines(cs []compared, steps []firstTest) {
	first := lists.Map(steps, func(s firstTest) float64 { return s.p })
	levels, _ := stats.HolmLevels(first, x.alpha())
	adjusted := stats.Holm(first)
	selected := lists.Count(adjusted, func(v float64) bool { return v < x.alpha() })
	for i, s := range steps {
		shown := adjusted[i] < x.alpha()
		if p := s.mean; p != nil {
			p.PAdjusted = &adjusted[i]
			p.Verdict = verdict(shown, p.direction())
			p.Smallest = x.smallest(p.test, levels[i], p.OnRatio)
		}
		if len(s.levels) == 1 {
			x.holm(cs, s.levels, levels[i], 1, adjusted[i])
			continue
		}
		among := selected
		if !shown {
			among++ // as if it were selected: the step that would apply
		}
		share := float64(among) / float64(len(steps))
		x.holm(cs, s.levels, x.alpha()*share, 1/share, adjusted[i])
	}
}

// holm gives the verdicts of one family at level alpha. It multiplies p-values by scale.
// They are at least parent, the p-value of the test that the family depends on.
func (x *estimator) holm(cs []compared, family []int, alpha, scale, parent float64) {
	p := lists.Map(family, func(at int) float64 { return *cs[at].P })
	levels, _ := stats.HolmLevels(p, alpha)
	for i, v := range stats.Holm(p) {
		c := &cs[family[i]]
		v = math.Max(parent, math.Min(1, v*scale))
		c.PAdjusted = &v
		c.Verdict = verdict(v < x.alpha(), c.direction())
		c.Smallest = x.smallest(c.test, levels[i], c.OnRatio)
		if c.Runs == nil && c.Verdict == NotShown && *c.P < x.alpha() {
			if n, _ := stats.BlocksToShow(c.test, levels[i]); n > c.N { // else the means over the levels decided
				c.BlocksNeeded = n
			}
		}
		c.same()
	}
}

// direction is above zero if the treatments are higher.
func (p *pooled) direction() float64 {
	if p.OnRatio {
		return p.Ratio.Estimate - 1
	}
	return p.Difference.Estimate
}

// mostRelative is the relative difference above which a smallest difference is unknown: no treatment
// has it, and with few noisy pairs its logarithm exceeds every number.
const mostRelative = 1000

// smallest is the smallest true difference that a test at a level shows, or nil if unknown.
func (x *estimator) smallest(r stats.Result, level float64, relative bool) *Smallest {
	i, ok := r.Detectable(level, stats.Power, x.confidence)
	if !ok {
		return nil
	}
	if relative {
		if i = i.Map(math.Expm1); i.Estimate > mostRelative {
			return nil
		}
		if *i.High > mostRelative {
			i.Low, i.High = nil, nil
		}
	}
	return &Smallest{Interval: i, Relative: relative, Level: level}
}
