package report

import (
	"fmt"
	"slices"

	"github.com/tare-mesh/tare/internal/compare"
	"github.com/tare-mesh/tare/internal/experiment"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/internal/stats"
)

// millicores is the CPU of work that goes on at any rate: per request it would depend on the rate.
var millicores = quantity{unit: "thousandths of a core", scale: 1000}

// leastSteady is the least share of steady work in the added CPU of a request, from which it has a claim of its own.
const leastSteady = 0.1

// steadyClaim is about work of a variant of a program that goes on without requests: the CPU of the processes beside the program, or what
// the program itself uses more. The CPU of a request is apart from it. There is none of other treatments.
func steadyClaim(v view, tr compare.Treatment) (c Claim, ok bool) {
	of, _ := costsOf(v, tr)
	name, cores := v.subject(tr), metric.Of(metric.CPUCores, string(metric.Data))
	words := inWords(name, compare.Higher, sentenceWords{"rate": rateWords(v, tr)})
	if used, known := v.r.Find(tr.ID, cores); known && ofApplications(v, tr) && addsData(v, tr, of.data) && used.Difference != nil {
		words["amount"], words["program"] = amountWithin(*used.Difference, millicores), v.restWords(tr, of, " of CPU a request")
		if idle, known := v.r.Find(tr.ID, metric.Of(metric.IdleCPU, string(metric.Data))); known && idle.Difference != nil && idle.Difference.Estimate > 0 {
			words["idle"] = " (" + amountWithin(*idle.Difference, quantity{scale: 1000}) + " without requests)"
		}
		return Claim{Form: besideClaim, Subject: tr.ID, Baseline: tr.Baseline, Metric: cores, Relation: compare.Higher, Amount: used.Difference}.fill(words), true
	}
	steady := metric.Of(metric.IdleCPU, "total")
	idle, known := v.r.Find(tr.ID, steady)
	waiting, _ := v.r.Find(tr.ID, metric.Of(metric.IdlePerRequest, "total"))
	idle = idle.Judged(v.r.Confidence)
	if !known || !ofApplications(v, tr) || idle.Verdict != compare.Higher || waiting.Difference == nil || of.total.Difference == nil || waiting.Difference.Estimate < leastSteady*of.total.Difference.Estimate {
		return c, false
	}
	with, without := paired(v, tr, func(m map[string]float64) (float64, bool) {
		all, known := m[answerCost]
		idle, apart := m[waiting.Metric]
		return all - idle, known && apart
	})
	work := stats.PairedDifference(with, without, v.r.Confidence)
	words["amount"], words["program"] = amountWithin(*idle.Difference, millicores), "no difference in its CPU is shown: "+signedWithin(work.Interval, quantityOf(answerCost))
	if work.Excludes(0) {
		more := compare.Higher
		if work.Estimate < 0 {
			more = compare.Lower
		}
		words["program"] = filled("it uses {amount} {more} CPU", inWords("", more, sentenceWords{"amount": amountWithin(work.Interval, quantityOf(answerCost))}))
	}
	return Claim{Form: steadyMore, Subject: tr.ID, Baseline: tr.Baseline, Metric: steady, Relation: idle.Verdict, Amount: idle.Difference}.fill(words), true
}

// rateWords are the rate of a variant of a program, for which its CPU per request holds: " at 50 requests/s". They are "" if its name has the
// rate, or if it is searched.
func rateWords(v view, tr compare.Treatment) string {
	rate, ok := tr.Factors[experiment.RateFactor].(float64)
	if !ok || !ofApplications(v, tr) || slices.Contains(v.label.factors, experiment.RateFactor) {
		return ""
	}
	return fmt.Sprintf(" at %s requests/s", Level(rate))
}
