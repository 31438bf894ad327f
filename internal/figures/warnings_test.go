package figures

import (
	"testing"
)

// A warning of several limits has the message of the trial that it affects most.
func TestTheSevereMessageStands(t *testing.T) {
	var all Tally
	all.Add("1", Warning{Code: "slices-overrun", Message: "limit 1 %"})
	all.Add("2", Warning{Code: "slices-overrun", Message: "limit 10 %", Withholds: true})
	all.Add("3", Warning{Code: "slices-overrun", Message: "limit 1 %"})
	if got := all.Warnings(); len(got) != 1 || got[0].Message != "limit 10 % (trial 2, for one)" || !got[0].Withholds || got[0].Trials != 3 {
		t.Errorf("%+v", got)
	}
}
