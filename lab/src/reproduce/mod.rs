//! Published results beside what the model says.
