package thread

// The events of a thread are these and no others.

func (Opened) threadEvent()             {}
func (Titled) threadEvent()             {}
func (MessagePosted) threadEvent()      {}
func (RunStarted) threadEvent()         {}
func (RouteRequested) threadEvent()     {}
func (RouteDecided) threadEvent()       {}
func (RouteFailed) threadEvent()        {}
func (TurnRequested) threadEvent()      {}
func (TurnCompleted) threadEvent()      {}
func (TurnFailed) threadEvent()         {}
func (ToolCallRequested) threadEvent()  {}
func (ToolStepRequested) threadEvent()  {}
func (ToolCallOffered) threadEvent()    {}
func (ToolStepCompleted) threadEvent()  {}
func (ToolCallCompleted) threadEvent()  {}
func (ToolCallFailed) threadEvent()     {}
func (LateResultRecorded) threadEvent() {}
func (IndexingFailed) threadEvent()     {}
func (IndexingEnded) threadEvent()      {}
func (RunResumed) threadEvent()         {}
func (RunCompleted) threadEvent()       {}
func (RunFailed) threadEvent()          {}
func (RunCancelled) threadEvent()       {}
