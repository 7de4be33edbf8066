// Package failpoint has a process die, wait or fail at a named step, for campaigns
// that look at what is left. Only a build with the tag "failpoints" holds any of
// it: in every other one Hit is nothing, and costs nothing.
//
// The environment variable TIERD_FAILPOINT arms one step: "archive.uploaded=kill@3"
// kills the process, as kill -9 does, when the step is reached for the third time;
// "=fail@1" has the step return an error; "=sleep:200ms@1" has it wait.
//
// TIERD_FAILPOINT_SKIP leaves a check out, so that a campaign can be shown to find
// what is broken without it: "second.copy", or several with commas between.
package failpoint

// The steps, in the order in which a document meets them.
const (
	CommitSent      = "commit.sent"      // hot was marked, warm has nothing
	CommitDone      = "commit.done"      // warm has it, hot was not told, the caller has no answer
	ArchiveStarted  = "archive.started"  // the intents stand, nothing was read
	ArchiveUploaded = "archive.uploaded" // both copies are there, the catalog has none
	ArchiveFinished = "archive.finished" // the catalog has them, the reader's position did not move
	DemoteProven    = "demote.proven"    // both copies were read back, warm still has the bytes
	DemoteDone      = "demote.done"      // warm has dropped them
	EraseOrdered    = "erase.ordered"    // the order is in both buckets, warm has everything
	EraseTaken      = "erase.taken"      // warm has nothing, the buckets have everything
	EraseSealed     = "erase.sealed"     // the order is final, cold has everything
	EraseCleaned    = "erase.cleaned"    // cold has nothing, hot and warm's files were not cleaned
	MergeUploaded   = "merge.uploaded"   // the merged segment is there, the catalog has its sources
)

// What a build can be told to leave out.
const (
	VersionCheck = "version.check" // a write's condition is ignored
	FenceCheck   = "fence.check"   // a lease's token of before is taken for the one that stands
	SecondCopy   = "second.copy"   // segments go to the primary bucket alone, and bytes leave warm behind that
)

// Steps returns the names of all steps.
func Steps() []string {
	return []string{
		CommitSent, CommitDone, ArchiveStarted, ArchiveUploaded, ArchiveFinished, DemoteProven, DemoteDone,
		EraseOrdered, EraseTaken, EraseSealed, EraseCleaned, MergeUploaded,
	}
}
