//! Generations, decisions and tasks: not kept by this store so far; every change is refused.

use std::sync::Arc;

use async_trait::async_trait;

use super::MongoStore;
use crate::collection::CollectionName;
use crate::record::RecordId;
use crate::store::decisions::{Decision, Decisions, Pair, Ruling};
use crate::store::generations::{Filed, Filing, GenerationSpec, GenerationState, Generations, Pairs};
use crate::store::tasks::{TaskPut, TaskState, Tasks};
use crate::store::{CollectionState, GenerationId, Result, Seq, StoreError};

fn refused<T>() -> Result<T> {
    Err(StoreError::Limit("this store keeps no generations, decisions and tasks yet".into()))
}

#[async_trait]
impl Generations for MongoStore {
    async fn begin_generation(&self, _: GenerationSpec) -> Result<GenerationState> {
        refused()
    }
    async fn file(&self, _: &CollectionName, _: GenerationId, _: Vec<Filing>) -> Result<u64> {
        refused()
    }
    async fn complete_generation(&self, _: &CollectionName, _: GenerationId) -> Result<()> {
        refused()
    }
    async fn activate_generation(&self, _: &CollectionName, _: GenerationId) -> Result<Arc<CollectionState>> {
        refused()
    }
    async fn drop_generation(&self, _: &CollectionName, _: GenerationId) -> Result<bool> {
        refused()
    }
    async fn statistics(&self, _: &CollectionName, _: GenerationId) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
    async fn filed(&self, _: &CollectionName, _: GenerationId, _: Seq, _: usize) -> Result<Vec<Filed>> {
        refused()
    }
    async fn put_pairs(&self, _: &CollectionName, _: GenerationId, _: Vec<Pairs>) -> Result<()> {
        refused()
    }
    async fn pairs(&self, _: &CollectionName, _: GenerationId, _: Seq, _: usize) -> Result<Vec<Pairs>> {
        refused()
    }
}

#[async_trait]
impl Decisions for MongoStore {
    async fn decide(&self, _: &CollectionName, _: Pair, _: Ruling) -> Result<Decision> {
        refused()
    }
    async fn decision(&self, _: &CollectionName, _: &Pair) -> Result<Option<Decision>> {
        Ok(None)
    }
    async fn decisions_of(&self, _: &CollectionName, _: &RecordId) -> Result<Vec<Decision>> {
        Ok(Vec::new())
    }
    async fn decisions(&self, _: &CollectionName, _: Option<&Pair>, _: usize) -> Result<Vec<Decision>> {
        Ok(Vec::new())
    }
    async fn put_decision(&self, _: &CollectionName, _: Decision) -> Result<()> {
        refused()
    }
}

#[async_trait]
impl Tasks for MongoStore {
    async fn tasks(&self) -> Result<Vec<TaskState>> {
        Ok(Vec::new())
    }
    async fn task(&self, _: &str) -> Result<Option<TaskState>> {
        Ok(None)
    }
    async fn put_task(&self, _: TaskState) -> Result<TaskPut> {
        refused()
    }
    fn is_shared(&self) -> bool {
        true
    }
}
