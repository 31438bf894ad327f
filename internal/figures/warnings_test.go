package figures

import (
	"testing"

	"github.com/tare-mesh/tare/test/difftest"
)

// A warning of several limits has the message of the trial that it affects most.
func TestTheSevereMessageStands(t *testing.T) {
	var all Tally
	all.Add("1", Warning{Code: "slices-overrun", Message: "limit 1 %"})
	all.Add("2", Warning{Code: "slices-overrun", Message: "limit 10 %", Withholds: true})
	all.Add("3", Warning{Code: "slices-overrun", Message: "limit 1 %"})
	if got := all.Warnings(); len(got) != 1 || !got[0].Withholds {
		t.Errorf("%+v", got)
	} else if d := difftest.Of("got[0].Message", got[0].Message, "limit 10 % (trial 2, for one)", "got[0].Trials", got[0].Trials, 3); d != "" {
		t.Errorf("%s: %+v", d, got)
	}
}
