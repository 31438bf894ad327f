package page

// Term is a word of reports, with its meaning.
type Term struct{ Name, Meaning string }

// Glossary has the words of reports and pages. docs/reference/glossary.md has the same.
func Glossary() []Term {
	return []Term{
		{"treatment", "One of the things compared: the application with a mesh, without one, at a rate."},
		{"baseline", "What a treatment is compared with, mostly the application with no mesh (`none` in files)."},
		{"block, trial", "A block has one trial of each treatment. Differences are computed within blocks, so that slow changes of the machine cancel."},
		{"noise, A/A pair", "The baseline compared with itself: it is measured a second time, as \"no mesh (again)\". Their difference is noise."},
		{"interval, ±", "The range that contains the true mean difference in 95 of 100 such runs: 424 ±6 is 418 to 430."},
		{"verdict", "Higher or lower: a difference is shown, however many comparisons the run has (Holm's method). Otherwise no difference is shown, which does not mean that there is none."},
		{"too small to see", "Below the smallest detectable difference, which 4 of 5 such runs show (80 % power)."},
		{"data plane", "Sidecars and other proxies that requests go through. The control plane configures them."},
		{"response time", "From the intended start of a request. Service time begins with its send."},
		{"p50, p99", "Percentiles: half of the requests take no longer than p50, 99 of 100 no longer than p99."},
		{"withheld", "A figure that a warning makes unusable."},
		{"open loop", "Requests are sent at the target rate, however slow the answers are."},
		{"mean over rates", "The mean of the differences at each rate of a sweep."},
		{"ladder", "Treatments that each add one feature to the one before, so that the steps add up. The intervals of its steps hold for all of them at once."},
		{"gate", "A limit for a change, such as +2 %. It holds, is breached, or is undecided."},
		{"sidecar", "A proxy beside each replica of a service."},
		{"paired", "Compared within blocks. Unpaired: imports, whose runs have no blocks."},
	}
}

// Glossary is the list of the page's words.
func (document) Glossary() []Term { return Glossary() }
