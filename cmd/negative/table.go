package main

import "github.com/cairnhq/cairn/domain/safety"

// control is a test that must go red when a mechanism is turned off.
type control struct {
	off    safety.Mechanism
	folder string
	test   string
}

// shared is the folder of the tests that have one binary for all mechanisms.
const shared = "cmd/negative/controls"

// controls are one test of the shared binary for each mechanism.
func controls() []control {
	return []control{
		{safety.FirstLead, shared, "TestTheFirstLeadOfANumberWins"},
		{safety.Acceptance, shared, "TestOnlyTheLeadersCommitsCount"},
		{safety.After, shared, "TestACommitBehindALostOneDoesNotCount"},
		{safety.Close, shared, "TestNothingCountsAfterAClose"},
		{safety.Positions, shared, "TestAReaderStopsAtAGap"},
		{safety.ReadBack, shared, "TestAnAnswerWaitsForWhatCounts"},
		{safety.RememberedIDs, shared, "TestACommandIsDecidedOnce"},
		{safety.IDsInFlight, shared, "TestCopiesThatComeAtOnceAreDecidedOnce"},
		{safety.SetBack, shared, "TestAStoreThatWentBackIsNotBelieved"},
		{safety.Flush, shared, "TestAFlushMovesFromWhereItIsExpected"},
		{safety.Checkpoint, shared, "TestTwoEnginesApplyEveryEventOnce"},
		{safety.Live, shared, "TestAReadFollowsASwap"},
		{safety.OneOutcome, shared, "TestAnEffectHasOneOutcome"},
		{safety.StartEffect, shared, "TestAStepIsBegunOnce"},
		{safety.DeviceJournal, shared, "TestADeviceDoesACallOnce"},
	}
}

// laws are tests that guard the same promises where they are kept, each in the binary of its own package.
func laws() []control {
	return []control{
		{safety.FirstLead, "streams", "TestTheAcceptanceRule"},
		{safety.Acceptance, "streams", "TestTheAcceptanceRule"},
		{safety.Acceptance, "streams/leadmodel", "TestLeadingKeepsItsPromises"},
		{safety.After, "streams", "TestTheAcceptanceRule"},
		{safety.After, "streams/leadmodel", "TestLeadingKeepsItsPromises"},
		{safety.Close, "streams", "TestTheAcceptanceRule"},
		{safety.FirstLead, "streams/kafka", "TestATailGivesWhatCountsAndMovesOverTheRest"},
		{safety.Acceptance, "streams/kafka", "TestATailGivesWhatCountsAndMovesOverTheRest"},
		{safety.RememberedIDs, "streams/kafka", "TestACommandIsDecidedOnce"},
		{safety.RememberedIDs, "streams/kafka", "TestAForgottenIDHasTheSameAnswer"},
		{safety.Flush, "streams/kafka", "TestAWriterTakesOverAnewWhenTheStoreMoved"},
		{safety.Flush, "projections/writerstates", "TestStates"},
		{safety.Flush, "streams/memory", "TestStates"},
		{safety.Live, "projections", "TestReadsAtSwapsNeitherFailNorMix"},
		{safety.OneOutcome, "domain/thread", "TestAnySequenceKeepsTheLaws"},
		{safety.StartEffect, "domain/thread", "TestAnySequenceKeepsTheLaws"},
		{safety.DeviceJournal, "clients/device", "TestACallIsDoneOnceAcrossRestarts"},
		{safety.DeviceJournal, "clients/device", "TestAnAnswerIsSentAgainUntilAcknowledged"},
	}
}
